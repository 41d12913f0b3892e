"""Make the golden files of the client: ask Java's own classes how they share queues and so on."""

from pathlib import Path

from interop.peer import VERSIONS, Peer

HERE = Path(__file__).parent
SEED = 20_250_919
CASES = 1_000
"""For each strategy."""


def keep(version: str) -> None:
    with Peer(version) as peer:
        peer.run("OffsetFiles", "write", str(HERE / "offsets" / f"{version}.json"))
        if version == VERSIONS[0]:
            lines = peer.run("AllocationVectors", str(SEED), str(CASES)).splitlines()
            vectors = "".join(line + "\n" for line in lines if line.count("\t") == 5)
            (HERE / "allocation" / f"{version}.tsv").write_text(vectors)


if __name__ == "__main__":
    for version in VERSIONS:
        keep(version)
