"""Make the golden files of configurations: ask the real brokers for their keys and defaults."""

from pathlib import Path

from interop.peer import VERSIONS, Peer

HERE = Path(__file__).parent

OF_THE_MACHINE = {
    "brokerName", "brokerIP1", "brokerIP2", "rocketmqHome", "storePathRootDir",
    "sendMessageThreadPoolNums", "putMessageFutureThreadPoolNums", "pullMessageThreadPoolNums",
    "litePullMessageThreadPoolNums", "processReplyMessageThreadPoolNums",
    "queryMessageThreadPoolNums", "heartbeatThreadPoolNums", "endTransactionThreadPoolNums",
    "clientCallbackExecutorThreads",
}  # fmt: skip
"""Their defaults differ from one machine to the next, and are kept as a question mark."""


def keep(version: str) -> None:
    with Peer(version) as peer:
        lines = peer.run("ConfigKeys").splitlines()
    rows = [line.split("\t") for line in lines if line.count("\t") in (1, 3)]
    kept = [[*row[:3], "?"] if row[1] in OF_THE_MACHINE else row for row in rows]
    (HERE / f"{version}.tsv").write_text("".join("\t".join(row) + "\n" for row in kept))


if __name__ == "__main__":
    for version in VERSIONS:
        keep(version)
