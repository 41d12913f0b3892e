"""Records of traces are Java's to the byte, and what Java reads of older clients is read alike."""

import json
from pathlib import Path
from typing import Any

import pytest

from roketto.client.trace_record import (
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    Trace,
    TraceError,
    TraceKind,
    TransactionState,
    decode_traces,
    encode_trace,
    encode_traces,
    keys_of,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "client" / "trace" / "5.5.0.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
WRITTEN = [line for line in LINES if "context" in line]
READ = [line for line in LINES if "read" in line]


def make_trace(context: dict[str, Any], bean: dict[str, Any]) -> Trace:
    """The trace that says what Java's objects say."""
    common = {
        "time_ms": context["timeStamp"], "region_id": context["regionId"],
        "group": context["groupName"], "message_id": bean["msgId"],
    }  # fmt: skip
    match context["traceType"]:
        case "Pub":
            return PubTrace(
                **common, topic=bean["topic"], tags=bean["tags"], keys=bean["keys"],
                store_host=bean["storeHost"], body_bytes=bean["bodyLength"],
                cost_ms=context["costTime"], kind=TraceKind(bean["msgType"]),
                offset_id=bean["offsetMsgId"], is_success=context["success"],
            )  # fmt: skip
        case "SubBefore":
            return SubBeforeTrace(
                **common, request_id=context["requestId"], retry_times=bean["retryTimes"],
                keys=bean["keys"],
            )  # fmt: skip
        case "SubAfter":
            is_cloud = context["accessChannel"] == "CLOUD"
            return SubAfterTrace(
                request_id=context["requestId"], message_id=bean["msgId"],
                cost_ms=context["costTime"], is_success=context["success"], keys=bean["keys"],
                code=context["contextCode"], time_ms=None if is_cloud else context["timeStamp"],
                group=None if is_cloud else context["groupName"],
            )  # fmt: skip
        case "EndTransaction":
            return EndTransactionTrace(
                **common, topic=bean["topic"], tags=bean["tags"], keys=bean["keys"],
                store_host=bean["storeHost"], kind=TraceKind(bean["msgType"]),
                transaction_id=bean["transactionId"],
                state=TransactionState(bean["transactionState"]),
                is_from_check=bean["fromTransactionCheck"],
            )  # fmt: skip
        case "Recall":
            return RecallTrace(
                **common, topic=bean["topic"], is_success=context["success"], keys=bean["keys"]
            )
    raise AssertionError(context)


def test_the_vectors_are_whole_and_of_every_type() -> None:
    assert {line["context"]["traceType"] for line in WRITTEN} == {
        "Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall",
    }  # fmt: skip
    assert len(READ) >= 10


@pytest.mark.parametrize("line", WRITTEN, ids=lambda line: line["context"]["traceType"])
def test_records_and_keys_are_what_java_makes_of_the_same(line: dict[str, Any]) -> None:
    traces = [make_trace(line["context"], bean) for bean in line["beans"]]
    assert encode_traces(traces) == line["text"]
    assert sorted(keys_of(traces)) == sorted(line["keys"])


@pytest.mark.parametrize("line", WRITTEN, ids=lambda line: line["context"]["traceType"])
def test_records_of_java_are_the_same_after_reading_and_writing(line: dict[str, Any]) -> None:
    assert encode_traces(decode_traces(line["text"])) == line["text"]


@pytest.mark.parametrize("line", READ, ids=lambda line: line["text"][:40])
def test_texts_of_other_clients_are_read_as_java_reads_them(line: dict[str, Any]) -> None:
    found = decode_traces(line["text"])
    assert len(found) == len(line["read"])
    for trace, seen in zip(found, line["read"], strict=True):
        bean = seen["bean"]
        assert (trace.message_id, trace.keys) == (bean["msgId"], bean["keys"])
        assert trace.time_ms == seen["timeStamp"]
        assert (trace.group or "") == seen["groupName"]
        if isinstance(trace, PubTrace):
            assert (trace.offset_id or "", trace.tags, trace.topic) == (
                bean["offsetMsgId"], bean["tags"], bean["topic"],
            )  # fmt: skip
            assert (trace.is_success, trace.cost_ms) == (seen["success"], seen["costTime"])
            assert trace.client_host == ("127.0.0.9" if "127.0.0.9" in line["text"] else None)
        else:
            assert isinstance(trace, SubAfterTrace)
            assert (trace.code, trace.is_success) == (seen["contextCode"], seen["success"])


def test_a_record_that_is_cut_names_its_type_and_text() -> None:
    whole = encode_trace(
        SubBeforeTrace(time_ms=1, region_id="R", group="G", request_id="Q", message_id="M")
    )
    with pytest.raises(TraceError, match=r"a trace SubBefore of 4 fields cannot be read.*'SubB"):
        decode_traces("\x01".join(whole.split("\x01")[:4]))
    with pytest.raises(TraceError, match="invalid literal for int"):
        decode_traces(whole.replace("\x011\x01", "\x01one\x01"))
