"""Consumer groups as operators see them: which there are, how configured, how far they came."""

from typing import Any

from msgspec.structs import replace

from roketto.admin.clients import Clients
from roketto.admin.errors import GroupNotFoundError, GroupOfflineError, NoProgressError
from roketto.admin.fleet import Broker, Fleet
from roketto.admin.progress import Progress, merge_progress, owners_of
from roketto.admin.topics import Attributes, Topics
from roketto.client.errors import ClientError, TopicNotFoundError
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.bodies.route import MessageQueue, TopicList
from roketto.protocol.bodies.stats import ConsumeStats
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.groups import DeleteSubscriptionGroupRequest
from roketto.protocol.headers.stats import GetConsumeStatsRequest
from roketto.protocol.headers.topics import QueryTopicsByConsumerRequest
from roketto.protocol.names import dlq_topic, retry_topic
from roketto.protocol.versions import V5_0_0, version_name

__all__ = ["Groups"]

Configs = dict[str, SubscriptionGroupConfig]


class Groups:
    """Made by ``Admin``, as ``admin.groups``.

    await admin.groups.create(SubscriptionGroupConfig(group_name="billing", retry_max_times=3))
    progress = await admin.groups.progress("billing")
    print(progress.lag, [queue.lag for queue in progress.queues])
    """

    def __init__(self, fleet: Fleet, topics: Topics, clients: Clients) -> None:
        self._fleet = fleet
        self._topics = topics
        self._clients = clients

    # --- configurations ---------------------------------------------------------------------------

    async def names(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """The names of all groups that the masters which are meant have."""
        tables = await self.configs(cluster=cluster, broker=broker)
        return sorted({name for table in tables.values() for name in table})

    async def configs(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, Configs]:
        """The configurations of all groups on each master that is meant."""
        answers = await self._fleet.ask_each(
            "list groups", await self._fleet.masters(cluster, broker), self._configs_on
        )
        return answers.checked(answers.results)

    async def config(
        self, group: str, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, SubscriptionGroupConfig]:
        """How a group is configured on those of them that have it; GroupNotFoundError if none has.

        Asking for one group alone would make it, hence all are asked for.
        """
        tables = await self.configs(cluster=cluster, broker=broker)
        found = {one: table[group] for one, table in tables.items() if group in table}
        if not found:
            raise _unknown(group, ", ".join(map(str, tables)))
        return found

    async def _configs_on(self, broker: Broker) -> Configs:
        found = await self._fleet.ask_body(
            SubscriptionGroupWrapper,
            broker.address,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        )
        return found.subscription_group_table

    async def create(
        self,
        config: SubscriptionGroupConfig,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        attributes: Attributes | None = None,
    ) -> list[Broker]:
        """Make a group on every master that is meant, or replace how it is configured there.

        Its attributes are given as changes, beside the rest. Returns where it is.
        """
        answers = await self._fleet.ask_each(
            f"create group {config.group_name}",
            await self._fleet.masters(cluster, broker),
            lambda one: self._put(one, config, attributes or {}),
        )
        return answers.checked(list(answers.results))

    async def update(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        attributes: Attributes | None = None,
        **changes: Any,
    ) -> list[Broker]:
        """Change what is given and leave the rest, on each master as it is there.

        ``changes`` are fields of SubscriptionGroupConfig. mqadmin's updateSubGroup sets back what
        it is not given.
        """
        fields = set(SubscriptionGroupConfig.__struct_fields__) - {"group_name"}
        if unknown := changes.keys() - fields:
            raise ValueError(
                f"no field {', '.join(sorted(unknown))} of a group can be changed, but"
                f" {', '.join(sorted(fields))}"
            )

        async def change(one: Broker) -> Command:
            current = (await self._configs_on(one)).get(group)
            if current is None:
                raise _unknown(group, str(one))
            return await self._put(one, replace(current, **changes), attributes or {})

        answers = await self._fleet.ask_each(
            f"update group {group}", await self._fleet.masters(cluster, broker), change
        )
        return answers.checked(list(answers.results))

    async def _put(
        self, broker: Broker, config: SubscriptionGroupConfig, attributes: Attributes
    ) -> Command:
        changes = {
            f"-{name}" if value is None else f"+{name}": value or ""
            for name, value in attributes.items()
        }
        body = encode_body(replace(config, attributes=changes))
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        answer = await self._fleet.ask(broker.address, code, body=body)
        if changes and answer.version < V5_0_0:
            raise ClientError(
                f"it is {version_name(answer.version)} and knows no attributes; all but"
                f" {', '.join(changes)} was done"
            )
        return answer

    async def delete(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        with_offsets: bool = False,
    ) -> list[Broker]:
        """Delete a group, and its offsets too if so asked.

        Of a whole cluster, what it was to consume again and what it gave up on goes with it.
        """
        request = DeleteSubscriptionGroupRequest(
            group_name=group, clean_offset=with_offsets, remove_offset=with_offsets
        )
        masters = await self._fleet.masters(cluster, broker)
        answers = await self._fleet.ask_each(
            f"delete group {group}",
            masters,
            lambda one: self._fleet.ask(one.address, RequestCode.DELETE_SUBSCRIPTIONGROUP, request),
        )
        done = answers.checked(list(answers.results))
        if broker is None:
            for name in sorted({master.cluster for master in masters}):
                await self._topics.delete(retry_topic(group), name)
                await self._topics.delete(dlq_topic(group), name)
        return done

    # --- consumption ------------------------------------------------------------------------------

    async def topics(self, group: str) -> list[str]:
        """The topics in which it has offsets; for brokers from 5.0 on."""
        request = QueryTopicsByConsumerRequest(group=group)
        answers = await self._fleet.ask_each(
            f"list the topics of group {group}",
            await self._fleet.of_group(group),
            lambda broker: self._fleet.ask_body(
                TopicList, broker.address, RequestCode.QUERY_TOPICS_BY_CONSUMER, request
            ),
        )
        lists = answers.results.values()
        return answers.checked(sorted({topic for found in lists for topic in found.topic_list}))

    async def progress(
        self, group: str, topic: str | None = None, *, with_clients: bool = False
    ) -> Progress:
        """How far it has come, in all topics or in one, and who has which queue if so asked.

        NoProgressError where brokers have no offsets. Static topics are shown by their physical
        queues.
        """
        owners = await self._owners(group) if with_clients else {}
        request = GetConsumeStatsRequest(consumer_group=group, topic=topic)
        answers = await self._fleet.ask_each(
            f"look at the progress of group {group}",
            await self._fleet.of_group(group, topic),
            lambda broker: self._fleet.ask_body(
                ConsumeStats,
                broker.address,
                RequestCode.GET_CONSUME_STATS,
                request,
                self._fleet.long_timeout_ms,
            ),
        )
        found = answers.checked(merge_progress(group, answers.results.values(), owners))
        if not found.queues:
            await self._check_progress(group)
        return found

    async def _owners(self, group: str) -> dict[MessageQueue, str]:
        try:
            return owners_of(await self._clients.running_infos(group))
        except (GroupOfflineError, TopicNotFoundError):
            return {}

    async def _check_progress(self, group: str) -> None:
        """NoProgressError unless members are online that have not committed anything yet."""
        try:
            connected = await self._clients.consumers(group)
        except (GroupOfflineError, TopicNotFoundError) as error:
            raise NoProgressError(group, is_broadcasting=False) from error
        if connected.message_model is MessageModel.BROADCASTING:
            raise NoProgressError(group, is_broadcasting=True)


def _unknown(group: str, where: str) -> GroupNotFoundError:
    return GroupNotFoundError(f"group {group} is not on {where}; create it, or check the name")
