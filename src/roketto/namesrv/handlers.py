"""What the name server does with each request: parse, decide, answer."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from roketto.clock import monotonic_s
from roketto.config_file import ConfigFile
from roketto.namesrv.config import NamesrvConfig
from roketto.namesrv.kvconfig import ORDER_TOPICS, KvConfig
from roketto.namesrv.routes import MASTER_ID, Notice, Registration, RouteTable
from roketto.options import Value
from roketto.protocol.bodies import route as bodies
from roketto.protocol.bodies.base import Body, decode_body, encode_body
from roketto.protocol.bodies.registration import RegisterBrokerBody, decode_registration
from roketto.protocol.bodies.topics import DataVersion
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.crc import masked_crc32
from roketto.protocol.errors import RequestError
from roketto.protocol.headers import namesrv as headers
from roketto.protocol.headers.base import H, Header, decode_header, encode_header
from roketto.protocol.properties_text import format_properties
from roketto.protocol.versions import V4_9_4
from roketto.remoting.connection import Connection, Reply

log = logging.getLogger(__name__)

Result = Header | Body | None

_HELP = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
_UNIT, _UNIT_SUB = 1, 2  # system flags of a topic


class Handlers:
    """The name server without its sockets: ``handle`` is what a Server calls.

    ``stored`` are the properties in the file at configStorePath, ``notify`` sends notices.
    """

    def __init__(
        self,
        config: NamesrvConfig,
        kv: KvConfig,
        stored: dict[str, str],
        notify: Callable[[list[Notice]], None],
    ) -> None:
        self.config = config
        self.routes = RouteTable(config)
        self._kv = kv
        self._file = ConfigFile(config, lambda: config.config_store_path, stored)
        self._notify = notify
        self._started_ms = now_ms()
        self._watched: set[Connection] = set()

    def handle(self, connection: Connection, request: Command) -> Reply:
        handler = HANDLERS.get(request.code)
        if handler is not None:
            return handler(self, connection, request)
        simple = SIMPLE_HANDLERS.get(request.code)
        if simple is None:
            reason = f" request type {request.code} not supported"
            raise RequestError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, reason)
        result = simple.answer(self, decode_header(simple.header, request.ext))
        if isinstance(result, Header):
            return request.answer(ext=encode_header(result))
        return request.answer(body=b"" if result is None else encode_body(result))

    # --- routes -----------------------------------------------------------------------------------

    def get_route(self, connection: Connection, request: Command) -> Reply:
        """The request that clients send all the time: mostly one look-up of an encoded answer."""
        ext, topics = request.ext or {}, self.routes.topics
        if self.config.need_wait_for_service:
            self._check_ready()
        zone = ext.get("__ZONE_NAME")
        if zone is not None and zone.strip() and _is_true(ext, "__ZONE_MODE"):
            route = _in_zone(self._find_route(request), zone)
            return request.answer(body=encode_body(route))  # the old form, whoever asks: Java's
        is_standard = request.version >= V4_9_4 or _is_true(ext, "acceptStandardJsonOnly")
        answers = topics.answers.standard if is_standard else topics.answers.old
        body = answers.get(ext.get("topic", ""))
        if body is None:
            body = encode_body(self._find_route(request), standard=is_standard)
            answers[ext["topic"]] = body
        return request.answer(body=body)

    def _check_ready(self) -> None:
        if now_ms() - self._started_ms < self.config.wait_seconds_for_service * 1000:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "name server not ready")

    def _find_route(self, request: Command) -> bodies.TopicRouteData:
        topic = decode_header(headers.GetRouteInfoRequest, request.ext).topic
        route = self.routes.pick_route(topic)
        if route is None:
            reason = f"No topic route info in name server for the topic: {topic}{_HELP}"
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, reason)
        if self.config.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPICS, topic)
        return route

    # --- brokers ----------------------------------------------------------------------------------

    def register_broker(self, connection: Connection, request: Command) -> Reply:
        header = decode_header(headers.RegisterBrokerRequest, request.ext)
        if header.body_crc32 and header.body_crc32 != masked_crc32(request.body):
            raise RequestError(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        body, version, packed = RegisterBrokerBody(), request.version, header.compressed
        if request.body:
            body = decode_registration(bytes(request.body), version=version, compressed=packed)
        answer, notices = self.routes.register(Registration(header, body, connection, now_ms()))
        if connection not in self._watched:
            self._watched.add(connection)
            connection.add_close_callback(self._broker_gone)
        self._notify(notices)
        order = self._kv.table(ORDER_TOPICS)
        if order is None or not self.config.return_order_topic_config_to_broker:
            return request.answer(ext=encode_header(answer))
        return request.answer(ext=encode_header(answer), body=encode_body(bodies.KVTable(order)))

    def _broker_gone(self, connection: Connection) -> None:
        self._watched.discard(connection)
        self._notify(self.routes.connection_closed(connection))

    def expire_brokers(self) -> None:
        """Drop silent brokers; called every scanNotActiveBrokerInterval."""
        connections, notices = self.routes.expire(now_ms())
        self._notify(notices)
        for connection in self._watched.intersection(connections):
            connection.close("its broker was silent for too long")

    def unregister_broker(self, said: headers.UnregisterBrokerRequest) -> Result:
        who = (said.cluster_name, said.broker_addr, said.broker_name, said.broker_id)
        self._notify(self.routes.unregister(*who))
        return None

    def heartbeat(self, said: headers.BrokerHeartbeatRequest) -> Result:
        self.routes.heartbeat(said.cluster_name, said.broker_addr, now_ms())
        return None

    def query_data_version(self, connection: Connection, request: Command) -> Reply:
        said = decode_header(headers.QueryDataVersionRequest, request.ext)
        theirs = decode_body(DataVersion, bytes(request.body)) if request.body else None
        ours = self.routes.data_version(said.cluster_name, said.broker_addr)
        self.routes.heartbeat(said.cluster_name, said.broker_addr, now_ms())
        answer = headers.QueryDataVersionResponse(changed=ours is None or ours != theirs)
        return request.answer(ext=encode_header(answer), body=encode_body(ours) if ours else b"")

    def get_members(self, said: headers.GetBrokerMemberGroupRequest) -> Result:
        members = self.routes.members(said.broker_name)
        group = bodies.BrokerMemberGroup(members, said.broker_name, said.cluster_name)
        return bodies.GetBrokerMemberGroupResponseBody(group)

    def wipe_write(self, said: headers.WipeWritePermRequest) -> Result:
        count = self.routes.topics.clear_write(said.broker_name)
        log.info("the topics of broker %.255r, %d, are no longer writable", said.broker_name, count)
        return headers.WipeWritePermResponse(wipe_topic_count=count)

    def add_write(self, said: headers.AddWritePermRequest) -> Result:
        count = self.routes.topics.allow_write(said.broker_name)
        log.info("the topics of broker %.255r, %d, are writable", said.broker_name, count)
        return headers.AddWritePermResponse(add_topic_count=count)

    # --- topics -----------------------------------------------------------------------------------

    def list_all_topics(self, said: Header) -> Result:
        return _list(self.routes.topics.names(), self.config.enable_all_topic_list)

    def list_topics_of_cluster(self, said: headers.GetTopicsByClusterRequest) -> Result:
        return _list(self.routes.topics_of_cluster(said.cluster), self.config.enable_topic_list)

    def register_topic(self, connection: Connection, request: Command) -> Reply:
        topic = decode_header(headers.RegisterTopicRequest, request.ext).topic
        if request.body:
            route = decode_body(bodies.TopicRouteData, bytes(request.body))
            self.routes.register_topic(topic, route.queue_datas)
        return request.answer()

    def delete_topic(self, said: headers.DeleteTopicFromNamesrvRequest) -> Result:
        self.routes.delete_topic(said.topic, said.cluster_name)
        return None

    # --- configuration ----------------------------------------------------------------------------

    async def put_kv(self, connection: Connection, request: Command) -> Command:
        said = decode_header(headers.PutKvConfigRequest, request.ext)
        await self._kv.put(said.namespace, said.key, said.value)
        self.routes.topics.answers.forget(said.key)  # which may show an order configuration
        return request.answer()

    async def delete_kv(self, connection: Connection, request: Command) -> Command:
        said = decode_header(headers.DeleteKvConfigRequest, request.ext)
        await self._kv.delete(said.namespace, said.key)
        self.routes.topics.answers.forget(said.key)
        return request.answer()

    def get_kv(self, said: headers.GetKvConfigRequest) -> Result:
        value = self._kv.get(said.namespace, said.key)
        if value is None:
            reason = f"No config item, Namespace: {said.namespace} Key: {said.key}"
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, reason)
        return headers.GetKvConfigResponse(value=value)

    def get_kv_table(self, said: headers.GetKvListRequest) -> Result:
        table = self._kv.table(said.namespace)
        if table is None:
            reason = f"No config item, Namespace: {said.namespace}"
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, reason)
        return bodies.KVTable(table)

    def get_config(self, connection: Connection, request: Command) -> Reply:
        items = dict(sorted(self.config.items(java_only=True)))
        return request.answer(body=format_properties(items).encode())

    async def update_config(self, connection: Connection, request: Command) -> Command:
        properties = await self._file.update(request.body, self._forget_answers)
        log.info("%s changed the configuration: %.255r", connection.peer, properties)
        return request.answer()

    def _forget_answers(self, _changed: Mapping[str, Value]) -> None:
        self.routes.topics.answers.forget_all()


def _flag_list(mask: int, flags: int) -> Callable[[Handlers, Header], Result]:
    """The handler that lists topics whose system flag has ``flags`` under ``mask``."""

    def answer(handlers: Handlers, said: Header) -> Result:
        names = handlers.routes.topics.names_with_flags(mask, flags)
        return _list(names, handlers.config.enable_topic_list)

    return answer


@dataclass(frozen=True, slots=True)
class Simple(Generic[H]):
    """A request whose handler needs no more than its header."""

    header: type[H]
    answer: Callable[[Handlers, H], Result]


HANDLERS: dict[int, Callable[[Handlers, Connection, Command], Reply]] = {
    RequestCode.PUT_KV_CONFIG: Handlers.put_kv,
    RequestCode.DELETE_KV_CONFIG: Handlers.delete_kv,
    RequestCode.REGISTER_BROKER: Handlers.register_broker,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Handlers.get_route,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Handlers.register_topic,
    RequestCode.UPDATE_NAMESRV_CONFIG: Handlers.update_config,
    RequestCode.GET_NAMESRV_CONFIG: Handlers.get_config,
    RequestCode.QUERY_DATA_VERSION: Handlers.query_data_version,
}

_C, _H = RequestCode, headers
SIMPLE_HANDLERS: dict[int, Simple[Any]] = {
    _C.GET_KV_CONFIG: Simple(_H.GetKvConfigRequest, Handlers.get_kv),
    _C.UNREGISTER_BROKER: Simple(_H.UnregisterBrokerRequest, Handlers.unregister_broker),
    _C.GET_BROKER_CLUSTER_INFO: Simple(Header, lambda self, said: self.routes.cluster_info()),
    _C.WIPE_WRITE_PERM_OF_BROKER: Simple(_H.WipeWritePermRequest, Handlers.wipe_write),
    _C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Simple(Header, Handlers.list_all_topics),
    _C.DELETE_TOPIC_IN_NAMESRV: Simple(_H.DeleteTopicFromNamesrvRequest, Handlers.delete_topic),
    _C.GET_KVLIST_BY_NAMESPACE: Simple(_H.GetKvListRequest, Handlers.get_kv_table),
    _C.GET_TOPICS_BY_CLUSTER: Simple(_H.GetTopicsByClusterRequest, Handlers.list_topics_of_cluster),
    _C.GET_SYSTEM_TOPIC_LIST_FROM_NS: Simple(
        Header, lambda self, said: self.routes.system_topics()
    ),
    _C.GET_UNIT_TOPIC_LIST: Simple(Header, _flag_list(_UNIT, _UNIT)),
    _C.GET_HAS_UNIT_SUB_TOPIC_LIST: Simple(Header, _flag_list(_UNIT_SUB, _UNIT_SUB)),
    _C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Simple(Header, _flag_list(_UNIT | _UNIT_SUB, _UNIT_SUB)),
    _C.ADD_WRITE_PERM_OF_BROKER: Simple(_H.AddWritePermRequest, Handlers.add_write),
    _C.GET_BROKER_MEMBER_GROUP: Simple(_H.GetBrokerMemberGroupRequest, Handlers.get_members),
    _C.BROKER_HEARTBEAT: Simple(_H.BrokerHeartbeatRequest, Handlers.heartbeat),
}


def now_ms() -> int:
    return int(monotonic_s() * 1000)


def _is_true(ext: dict[str, str], key: str) -> bool:
    return ext.get(key, "").lower() == "true"


def _list(names: list[str], is_enabled: bool) -> Result:
    if not is_enabled:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "disable")
    return bodies.TopicList(topic_list=names)


def _in_zone(route: bodies.TopicRouteData, zone: str) -> bodies.TopicRouteData:
    """Keep the brokers of a zone, and those without a master wherever they are."""
    far = {
        broker.broker_name: broker
        for broker in route.broker_datas
        if MASTER_ID in broker.broker_addrs and (broker.zone_name or "").lower() != zone.lower()
    }
    for broker in far.values():
        for address in broker.broker_addrs.values():
            route.filter_server_table.pop(address, None)
    route.broker_datas = [b for b in route.broker_datas if b.broker_name not in far]
    route.queue_datas = [q for q in route.queue_datas if q.broker_name not in far]
    return route
