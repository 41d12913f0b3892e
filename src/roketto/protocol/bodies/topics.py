"""Topic configurations, the versions of their tables, and the queue mappings of static topics."""

from enum import Enum

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long

__all__ = [
    "CreateTopicListRequestBody",
    "DataVersion",
    "LogicQueueMappingItem",
    "TopicConfig",
    "TopicConfigAndMappingSerializeWrapper",
    "TopicConfigAndQueueMapping",
    "TopicConfigSerializeWrapper",
    "TopicFilterType",
    "TopicQueueMappingDetail",
    "TopicQueueMappingInfo",
    "TopicQueueMappingSerializeWrapper",
]


class DataVersion(Body):
    """The version of a table: equal only if all members are."""

    counter: Long = 0
    state_version: Long = 0
    timestamp: Long = 0

    @property
    def rank(self) -> tuple[int, int, int]:
        """What decides which of two versions is newer: the state machine, the count, the clock."""
        return (self.state_version, self.counter, self.timestamp)


class TopicFilterType(Enum):
    """How many tags a message of the topic may have; nobody uses the second."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class TopicConfig(Body):
    """One topic on one broker. The defaults are Java's."""

    attributes: dict[str, str] = field(default_factory=dict)
    order: bool = False
    perm: Int = 6
    read_queue_nums: Int = 16
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_name: str = ""
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 16


class TopicConfigSerializeWrapper(Body):
    """All topics of a broker: GET_ALL_TOPIC_CONFIG of 4.x, registration below version 37."""

    data_version: DataVersion = field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)


class LogicQueueMappingItem(Body):
    """One stretch of a logical queue: the physical queue that holds it, and from which offset."""

    bname: str = ""
    end_offset: Long = -1
    gen: Int = 0
    logic_offset: Long = 0
    queue_id: Int = 0
    start_offset: Long = 0
    time_of_end: Long = -1
    time_of_start: Long = -1


class TopicQueueMappingInfo(Body):
    """Which logical queues of a static topic one broker hosts, and under which physical id."""

    bname: str | None = None
    curr_id_map: dict[Int, Int] = field(default_factory=dict)
    dirty: bool = False
    epoch: Long = 0
    scope: str | None = None
    topic: str | None = None
    total_queues: Int = 0


class TopicQueueMappingDetail(Body):
    """A TopicQueueMappingInfo with the whole history of each hosted queue."""

    bname: str | None = None
    curr_id_map: dict[Int, Int] = field(default_factory=dict)
    dirty: bool = False
    epoch: Long = 0
    hosted_queues: dict[Int, list[LogicQueueMappingItem]] = field(default_factory=dict)
    scope: str | None = None
    topic: str | None = None
    total_queues: Int = 0


class TopicConfigAndMappingSerializeWrapper(Body):
    """All topics of a 5.x broker with its queue mappings."""

    data_version: DataVersion = field(default_factory=DataVersion)
    mapping_data_version: DataVersion = field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = field(default_factory=dict)
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = field(default_factory=dict)


class TopicConfigAndQueueMapping(Body):
    """One topic with its queue mapping: the answer to GET_TOPIC_CONFIG."""

    attributes: dict[str, str] = field(default_factory=dict)
    mapping_detail: TopicQueueMappingDetail | None = None
    order: bool = False
    perm: Int = 6
    read_queue_nums: Int = 16
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_name: str = ""
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 16


class TopicQueueMappingSerializeWrapper(Body):
    """All queue mappings of a broker, as its slaves fetch them."""

    data_version: DataVersion = field(default_factory=DataVersion)
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingDetail] = field(default_factory=dict)


class CreateTopicListRequestBody(Body):
    """Topics to create or update in one request."""

    topic_config_list: list[TopicConfig] = field(default_factory=list)
