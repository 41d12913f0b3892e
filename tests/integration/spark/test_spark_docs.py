"""Every Python snippet of docs/spark.md runs, one behind the other, and then the README's."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from integration.client.test_docs_snippets import snippets_of
from integration.spark.spark_rig import AnyRig
from roketto.spark import environment
from servers import ServerProcess, broker, name_server

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "spark.md").read_text()
SNIPPETS: Final = list(snippets_of("docs/spark.md", PAGE))
README: Final = [
    snippet
    for snippet in snippets_of("README.md", (ROOT / "README.md").read_text())
    if snippet.is_spark
]
ADDRESS: Final = "127.0.0.1:9876"
FOLDER: Final = "/data/"
"""What stands on the page for the name server, and for what is everybody's own to choose."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def names(folder: Path) -> Iterator[ServerProcess]:
    """A cluster of the page's own: it says what a broker has to allow, and names its topics."""
    options = {"enablePropertyFilter": "true"}
    with name_server(folder) as names, broker(folder, [names.address], options):
        yield names


@pytest.fixture
def rows_of_tables(names: ServerProcess) -> str:
    """A topic with a row in it."""
    rig = AnyRig(names.address)
    rig.send(rig.topic("RowsOfTables"), ["a row"])
    return "RowsOfTables"


@pytest.fixture
def own_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session for the page, on the context of all tests; what it sets is its own."""
    session = spark.newSession()
    monkeypatch.setattr(SparkSession, "_instantiatedSession", session)
    for name, value in environment(provide_java=False).items():
        monkeypatch.setenv(name, value)
    return session


def test_the_page_runs_from_its_beginning_to_its_end(
    names: ServerProcess,
    own_session: SparkSession,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "store").symlink_to(folder / "store")
    space: dict[str, Any] = {"__name__": "__main__"}
    for snippet in [*SNIPPETS, *README]:
        text = snippet.code.replace(ADDRESS, names.address).replace(FOLDER, f"{folder}/data/")
        exec(compile(text, str(snippet), "exec"), space)
        assert capsys.readouterr().out == snippet.printed, str(snippet)
    space["query"].processAllAvailable()
    space["query"].stop()  # the README's, which goes on for ever
    assert space["spark"] is own_session


def test_tables_are_what_the_page_says(
    names: ServerProcess, own_session: SparkSession, rows_of_tables: str, folder: Path
) -> None:
    """Options come with each query, of streams as well; no rows are inserted, and no path named."""
    options = {"nameServer": names.address, "topic": rows_of_tables}
    own_session.sql("CREATE TABLE table_of_the_page USING rocketmq OPTIONS (topic 'Forgotten')")
    try:
        stored = own_session.read.options(**options).table("table_of_the_page")
        assert [bytes(row.body) for row in stored.collect()] == [b"a row"]
        stream = own_session.readStream.options(**options, startingOffsets="earliest")
        query = (
            stream.table("table_of_the_page").writeStream.format("memory").queryName("of_the_page")
            .option("checkpointLocation", str(folder / "tables"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(60)
        assert own_session.table("of_the_page").count() == 1
        with pytest.raises(PySparkException, match="no topic is named"):
            own_session.table("table_of_the_page").collect()
        # Columns of a message to be written are no row of the table, and a row of it none of these.
        with pytest.raises(PySparkException, match="INSERT_COLUMN_ARITY_MISMATCH"):
            own_session.sql("INSERT INTO table_of_the_page VALUES ('a body')")
        with pytest.raises(PySparkException, match="no name server is named"):
            own_session.sql("INSERT INTO table_of_the_page SELECT * FROM of_the_page")
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
            own_session.sql(f"SELECT * FROM rocketmq.`{rows_of_tables}`")
    finally:
        own_session.sql("DROP TABLE table_of_the_page")
    assert stored.count() == 1


def test_all_python_of_the_page_is_found() -> None:
    """No block is indented, or fenced in another way, so that nobody would run it."""
    count = len(re.findall(r"^\s*(?:```|~~~)\s*(?:py|python|python3)\b", PAGE, re.M))
    assert count == len(SNIPPETS) > 15
    assert len(README) == 1
