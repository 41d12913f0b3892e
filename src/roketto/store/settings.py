"""What a store is made with; names of Java's options stand beside ours."""

from dataclasses import dataclass, field
from typing import Final

from roketto.protocol.limits import MESSAGE_BYTES_MAX
from roketto.store.consumequeue import FILE_BYTES
from roketto.store.flush import FlushSettings
from roketto.store.indexfile import ENTRIES, SLOTS
from roketto.store.reading import TransferLimits
from roketto.store.retention import RetentionSettings

__all__ = ["StoreSettings"]

_RECENT_UNITS_SHARE: Final = 64
"""What part of the memory they may take: 20 bytes for each message, where a few thousand bytes in
each of ten thousand files would take as much of the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """What a store is made with; names of Java's options stand beside ours."""

    segment_bytes: int = 1 << 30
    """mappedFileSizeCommitLog"""
    queue_file_bytes: int = FILE_BYTES
    """mappedFileSizeConsumeQueue"""
    index_enable: bool = True
    """messageIndexEnable"""
    index_slots: int = SLOTS
    """maxHashSlotNum"""
    index_entries: int = ENTRIES
    """maxIndexNum"""
    is_flush_sync: bool = False
    """flushDiskType=SYNC_FLUSH: a message can be consumed once it is on the disk, not before."""
    flush: FlushSettings = field(default_factory=FlushSettings)
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """maxMessageSize"""
    append_crc: bool = True
    """enabledAppendPropCRC: a checksum over the whole of each record, 20 bytes more. Java's default
    is off; its brokers and clients take such records as any other."""
    memory_bytes: int = 8 << 30
    """How much memory the machine has, for guessing whether a read needs the disk."""
    limits: TransferLimits = field(default_factory=TransferLimits)
    retention: RetentionSettings = field(default_factory=RetentionSettings)

    @property
    def recent_units_bytes(self) -> int:
        """What the newest units of queues may take that are too many for all to have open files."""
        return self.memory_bytes // _RECENT_UNITS_SHARE
