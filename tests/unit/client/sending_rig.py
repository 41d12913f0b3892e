"""Two brokers that are functions, for producers: each send can be seen, and answered at will."""

import asyncio
from collections.abc import Callable

from roketto.client.message import Message
from roketto.client.producer import Producer
from roketto.client.send_settings import SendSettings
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.properties import decode_properties
from unit.client.core_rig import TOPIC, Answer, Rig, ScriptedPool, route_data

A = "10.0.0.1:10911"
B = "10.0.0.2:10911"
SENDS = {
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
}
HELLO = Message(TOPIC, b"hello")


class HeldPool(ScriptedPool):
    """Answers sends when ``gate`` is set, takes one-way ones when it is ``writable``."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.gate = asyncio.Event()
        self.gate.set()
        self.timeouts_ms: list[int] = []
        self.writable = True
        self.writes = 0

    async def request(self, address: str, command: Command, timeout_ms: int) -> Command:
        if command.code in SENDS:
            self.timeouts_ms.append(timeout_ms)
            self.sent.append((address, command))
            await self.gate.wait()
            return self._answer(address, command)
        return await super().request(address, command, timeout_ms)

    async def send_one_way(self, address: str, command: Command) -> bool:
        self.writes += 1
        if self.writable:
            self.sent.append((address, command))
        return self.writable


class SendRig:
    """A topic with queues on broker-a and broker-b, and a producer that is not started."""

    def __init__(
        self,
        answer: Answer | None = None,
        sending: SendSettings | None = None,
        namespace: str = "",
        make: Callable[..., Producer] = Producer,
    ) -> None:
        self._answer = answer or (lambda address, command: stored(command))
        rig = Rig(self._any, namespace)
        self.routes = rig.routes
        name = f"{namespace}%{TOPIC}" if namespace else TOPIC
        self.routes[name] = route_data({"broker-a": {0: A}, "broker-b": {0: B}}, queues=2)
        self.client = rig.client
        self.pool = HeldPool(rig._route_or_broker)
        self.client.calls.pool = self.pool
        self.client.names._pool = self.pool
        self.producer = make("orders", client=self.client, sending=sending)

    def _any(self, address: str, command: Command) -> Command:
        return self._answer(address, command) if command.code in SENDS else command.answer()

    @property
    def sends(self) -> list[tuple[str, Command]]:
        return [(address, command) for address, command in self.pool.sent if command.code in SENDS]

    @property
    def addresses(self) -> list[str]:
        """Where sends went, in order."""
        return [address for address, _ in self.sends]

    def header(self, number: int = -1) -> dict[str, str]:
        return dict(self.sends[number][1].ext or {})

    def properties(self, number: int = -1) -> dict[str, str]:
        return decode_properties(self.header(number)["i"].encode())


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(50):
        await asyncio.sleep(0)


def stored(command: Command, code: int = 0, **more: str) -> Command:
    """What a broker says of a message that it has."""
    ext = {"msgId": "0A" * 16, "queueOffset": "7", **more}
    return command.answer(code, {"queueId": (command.ext or {})["e"], **ext})
