"""A producer of transactions whose broker is a script, which keeps what it was told."""

import asyncio

from roketto.client.transaction import TransactionProducer
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.ids import encode_offset_id
from roketto.protocol.names import HALF_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.remoting.errors import RemotingError
from unit.client.core_rig import GROUP, MASTER, TOPIC, Rig, ScriptedPool

HOST = bytes((10, 0, 0, 1, 0, 0, 42, 159))
LOG_OFFSET = 4_711
HALF_OFFSET = 17


class OneWayPool(ScriptedPool):
    """Also takes what nobody answers, and may not answer at all, as its rig says."""

    def __init__(self, rig: "TransactionRig") -> None:
        super().__init__(rig._route_or_broker)
        self._rig = rig

    async def request(self, address: str, command: Command, timeout_ms: int) -> Command:
        if self._rig.is_silent:
            await asyncio.sleep(60)
        return await super().request(address, command, timeout_ms)

    async def send_one_way(self, address: str, command: Command) -> bool:
        if self._rig.error is not None:
            raise self._rig.error
        if self._rig.reads:
            self.sent.append((address, command))
        return self._rig.reads


class TransactionRig(Rig):
    """``send_code`` is the broker's answer to half messages, ``end_code`` that to their ends."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__(self._broker, namespace)
        self.send_code = 0
        self.end_code = 0
        self.offset_id = encode_offset_id(HOST, LOG_OFFSET)
        self.reads = True
        self.is_silent = False
        self.error: RemotingError | None = None
        self.pool = OneWayPool(self)
        self.client.pool = self.client.calls.pool = self.pool
        self.client.names._pool = self.pool

    def _broker(self, address: str, command: Command) -> Command:
        if command.code == RequestCode.SEND_MESSAGE_V2:
            fields = {
                "msgId": self.offset_id, "queueId": "2", "queueOffset": str(HALF_OFFSET),
                "transactionId": "their-id",
            }  # fmt: skip
            return command.answer(self.send_code, fields, remark="as told")
        if command.code == RequestCode.END_TRANSACTION:
            return command.answer(self.end_code, remark="as told")
        return command.answer()

    def ends(self) -> list[tuple[int, bool, str | None]]:
        """What brokers were told: decision, whether they had asked, remark."""
        return [
            (int(ext["commitOrRollback"]), ext["fromTransactionCheck"] == "true", command.remark)
            for _, command in self.pool.sent
            if command.code == RequestCode.END_TRANSACTION and (ext := command.ext or {})
        ]

    async def wait_ends(self, count: int) -> None:
        """Wait until brokers were told so many."""
        for _ in range(2_000):
            if len(self.ends()) >= count:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"brokers were told {self.ends()}, which are not {count}")

    def half(self, message_id: str, body: bytes = b"x", sys_flag: int = 0, **more: str) -> Record:
        """A half message as a broker brings it."""
        properties = {"UNIQ_KEY": message_id, "PGROUP": GROUP, "REAL_TOPIC": TOPIC, **more}
        return Record(
            self.client.wrap(TOPIC), body, encode_properties(properties), sys_flag=sys_flag,
            log_offset=900, queue_offset=90, store_host=HOST,
        )  # fmt: skip


def question(message_id: str) -> CheckTransactionStateRequest:
    return CheckTransactionStateRequest(
        topic=HALF_TOPIC, half_queue_offset=90, log_offset=900, msg_id=message_id,
        transaction_id=message_id, target_broker_name="broker-a",
    )  # fmt: skip


async def ask(rig: TransactionRig, producer: TransactionProducer, half: Record) -> None:
    """Let a broker ask, and wait until it is answered."""
    told = len(rig.ends())
    producer.check_transaction(MASTER, question(half.message_id), half)
    await rig.wait_ends(told + 1)
