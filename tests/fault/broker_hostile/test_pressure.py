"""A disk that hangs under SYNC_FLUSH: what is refused was not stored, what was stored is told."""

import asyncio
from pathlib import Path
from typing import Final

from fault.broker.wire import TIMEOUT_MS, Queue, connected, read_queue, send, send_request
from fault.broker_hostile.target import target
from fault.broker_hostile.watched import stall_the_disk
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.remoting.connection import Connection
from roketto.remoting.settings import ConnectionSettings

QUEUE: Final = Queue("Pressed", 0)
PROPERTIES: Final = {"UNIQ_KEY": "7F00000100000000000000000000000A", "WAIT": "true"}
CONFIG: Final = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "60000"}
IN_FLIGHT_MAX: Final = ConnectionSettings().requests_in_flight_max


class Sent:
    """Sends that are under way, by their bodies."""

    def __init__(self, connection: Connection) -> None:
        self.tasks: dict[bytes, asyncio.Task[Command]] = {}
        self._connection = connection

    def send(self) -> None:
        body = b"%d" % len(self.tasks)
        request = send_request(QUEUE, body, PROPERTIES)
        work = self._connection.request(request, 4 * TIMEOUT_MS)
        self.tasks[body] = asyncio.create_task(work)

    def answers(self) -> dict[bytes, Command]:
        """Those that have been answered."""
        return {body: task.result() for body, task in self.tasks.items() if task.done()}

    def remarks(self, code: int) -> list[str]:
        return [it.remark or "" for it in self.answers().values() if it.code == code]

    async def check(self) -> None:
        """Wait for all: the queue has just those that were acknowledged."""
        await asyncio.gather(*self.tasks.values())
        taken = {body for body, answer in self.answers().items() if answer.code == 0}
        records = await read_queue(self._connection, QUEUE)
        assert sorted(bytes(it.body) for it in records) == sorted({*taken, b"first"})
        assert {it.code for it in self.answers().values()} == {0, int(ResponseCode.SYSTEM_BUSY)}


async def test_sends_are_refused_while_the_disk_hangs(tmp_path: Path) -> None:
    """Once enough of them wait for it, and until it goes on."""
    config = {**CONFIG, "osPageCacheBusyTimeOutMills": "300"}
    with target(tmp_path, config, bug=stall_the_disk) as broker:
        async with connected(broker.address) as connection:
            await send(connection, QUEUE, b"first", PROPERTIES)
            sent = Sent(connection)
            with broker.stalled_disk():
                for _ in range(200):
                    sent.send()
                async with asyncio.timeout(15):
                    while not sent.answers():
                        sent.send()
                        await asyncio.sleep(0.02)
            remarks = sent.remarks(ResponseCode.SYSTEM_BUSY)
            assert remarks, sent.answers()
            assert all(remark.startswith("[PCBUSY_CLEAN_QUEUE]broker busy, ") for remark in remarks)
            await sent.check()
            await send(connection, QUEUE, b"last", PROPERTIES)


async def test_sends_that_waited_behind_too_many_are_refused(tmp_path: Path) -> None:
    """Those that were read above the bound of a connection, and could not be handled in time."""
    config = {**CONFIG, "osPageCacheBusyTimeOutMills": "600000", "waitTimeMillsInSendQueue": "100"}
    with target(tmp_path, config, bug=stall_the_disk) as broker:
        async with connected(broker.address) as connection:
            await send(connection, QUEUE, b"first", PROPERTIES)
            sent = Sent(connection)
            with broker.stalled_disk():
                for _ in range(IN_FLIGHT_MAX + 500):
                    sent.send()
                await asyncio.sleep(3.0)  # the wait itself, many times as long as is allowed
                assert not sent.answers(), "a bound on requests under way is not kept"
            await sent.check()
            remarks = sent.remarks(ResponseCode.SYSTEM_BUSY)
            assert all(
                remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy, ") for remark in remarks
            )
