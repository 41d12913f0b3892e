"""Proves that the headers of sending are the peer's."""

from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.headers import send
from roketto.protocol.headers.base import Header, decode_header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = send


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


texts = st.text(max_size=20)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
requests = st.builds(
    send.SendMessageRequest,
    producer_group=texts,
    topic=texts,
    default_topic=texts,
    default_topic_queue_nums=i32,
    queue_id=i32,
    sys_flag=i32,
    born_timestamp=i64,
    flag=i32,
    properties=st.none() | texts,
    reconsume_times=st.none() | i32,
    unit_mode=st.none() | st.booleans(),
    batch=st.none() | st.booleans(),
    max_reconsume_times=st.none() | i32,
    namespace=st.none() | texts,
    is_namespaced=st.none() | st.booleans(),
    target_broker_name=st.none() | texts,
    is_one_way=st.none() | st.booleans(),
    is_logical=st.none() | st.booleans(),
)


@given(requests)
def test_a_request_survives_the_way_to_short_names_and_back(
    request: send.SendMessageRequest,
) -> None:
    assert send.send_request_from_v2(send.send_request_to_v2(request)) == request


def test_short_names_stand_for_the_long_ones_of_the_peer() -> None:
    ext = {
        "producerGroup": "a",
        "topic": "b",
        "defaultTopic": "c",
        "defaultTopicQueueNums": "4",
        "queueId": "5",
        "sysFlag": "6",
        "bornTimestamp": "7",
        "flag": "8",
        "properties": "i",
        "reconsumeTimes": "10",
        "unitMode": "true",
        "maxReconsumeTimes": "12",
        "batch": "false",
        "bname": "n",
    }
    request = send.send_request_to_v2(decode_header(send.SendMessageRequest, ext))
    assert encode_header(request) == {
        "a": "a",
        "b": "b",
        "c": "c",
        "d": "4",
        "e": "5",
        "f": "6",
        "g": "7",
        "h": "8",
        "i": "i",
        "j": "10",
        "k": "true",
        "l": "12",
        "m": "false",
        "n": "n",
        "bname": "n",
    }


def test_the_queue_of_a_send_may_be_the_brokers_choice() -> None:
    ext = {"a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "9", "h": "0"}
    request = decode_header(send.SendMessageV2Request, ext)
    assert request.queue_id == -1
    assert encode_header(request) == ext


def test_region_and_trace_travel_beside_the_peers_header() -> None:
    answer = send.SendMessageResponse(
        msg_id="m", queue_id=1, queue_offset=2, region_id="DefaultRegion", trace_on=True
    )
    assert encode_header(answer) == {
        "msgId": "m",
        "queueId": "1",
        "queueOffset": "2",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


def test_a_message_given_back_is_named_by_its_place_in_the_log() -> None:
    ext = {"offset": "4096", "group": "g", "delayLevel": "0"}
    assert decode_header(send.ConsumerSendMsgBackRequest, ext).log_offset == 4096
