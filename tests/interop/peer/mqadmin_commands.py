"""The mqadmin commands of a capture, as text: what exists in one version only fails in the other.

Placeholders stand for what only a run knows: {broker}, {client_id}, {message_id}, {unique_id}
and {files}, the directory with `FILES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FILES: Final = {
    "topics.json": '[{"topicName":"GoldenListed","readQueueNums":1,"writeQueueNums":1,"perm":6}]',
    "groups.json": '[{"groupName":"GoldenListedGroup"}]',
}
"""Input of the commands that read a file."""

_WHILE_CONSUMING: Final = """
topicList
topicList -c
topicRoute -t Golden
topicRoute -t GoldenMissing
topicClusterList -t Golden
topicStatus -t Golden
updateTopicPerm -b {broker} -t GoldenOrdered -p 4
updateTopicPerm -b {broker} -t GoldenOrdered -p 6
updateTopicList -b {broker} -f {files}/topics.json
updateOrderConf -t GoldenOrdered -m put -v broker-a:2
updateOrderConf -t GoldenOrdered -m get
updateStaticTopic -c DefaultCluster -t GoldenStatic -qn 2
clusterList
clusterList -m
brokerStatus -b {broker}
getBrokerConfig -b {broker}
updateBrokerConfig -b {broker} -k flushCommitLogTimed -v true
updateSubGroup -b {broker} -g GoldenLive
updateSubGroupList -b {broker} -f {files}/groups.json
getConsumerConfig -g GoldenLive
consumerConnection -g GoldenLive
producerConnection -g GoldenMissing -t Golden
producer -b {broker}
consumerProgress -g GoldenLive
consumerProgress -g GoldenLive -s true
consumerProgress
consumerStatus -g GoldenLive -i {client_id}
brokerConsumeStats -b {broker}
statsAll -t Golden
cloneGroupOffset -s GoldenLive -d GoldenCloned -t Golden -o true
queryMsgById -t Golden -i {message_id}
queryMsgById -t Golden -i {message_id} -g GoldenLive -d {client_id}
queryMsgByKey -t Golden -k key1
queryMsgByUniqueKey -t Golden -i {unique_id}
queryMsgByOffset -t Golden -b broker-a -i 0 -o 0
queryCq -t Golden -q 0 -i 0 -c 2 -g GoldenLive -b {broker}
printMsg -t GoldenOrdered
sendMessage -t Golden -p text -k key3 -c tagA
resetOffsetByTime -g GoldenLive -t Golden -s now
resetOffsetByTime -g GoldenPull -t Golden -s now
skipAccumulatedMessage -g GoldenLive -t Golden
updateKvConfig -s golden -k key -v value
getNamesrvConfig
updateNamesrvConfig -k enableTopicList -v true
setConsumeMode -b {broker} -t Golden -g GoldenPop -m POP
haStatus -b {broker}
getBrokerEpoch -b broker-a
cleanExpiredCQ -b {broker}
cleanUnusedTopic -b {broker}
deleteExpiredCommitLog -b {broker}
resetMasterFlushOffset -b {broker} -o 0
setCommitLogReadAheadMode -b {broker} -m 0
getColdDataFlowCtrInfo -b {broker}
updateColdDataFlowCtrGroupConfig -b {broker} -g GoldenLive -v 1024
removeColdDataFlowCtrGroupConfig -b {broker} -g GoldenLive
exportMetadata -b {broker} -f {files}
exportConfigs -c DefaultCluster -f {files}
exportMetrics -c DefaultCluster -f {files}
exportPopRecord -b {broker} -d true
checkRocksdbCqWriteProgress -c DefaultCluster -t Golden
rocksDBConfigToJson -b {broker} -t topics
switchTimerEngine -b {broker} -e F
createUser -b {broker} -u golden -p golden1 -t Normal
updateUser -b {broker} -u golden -p golden2
getUser -b {broker} -u golden
listUser -b {broker}
createAcl -b {broker} -s User:golden -r Topic:Golden -a Pub,Sub -d Allow
updateAcl -b {broker} -s User:golden -r Topic:Golden -a Pub -d Allow
getAcl -b {broker} -s User:golden
listAcl -b {broker}
deleteAcl -b {broker} -s User:golden
deleteUser -b {broker} -u golden
updateAclConfig -b {broker} -a goldenKey -s goldenSecret -t DENY
getAclConfig -b {broker}
clusterAclConfigVersion -b {broker}
updateGlobalWhiteAddr -b {broker} -g 127.0.0.1
deleteAclConfig -b {broker} -a goldenKey
getBrokerLiteInfo -b {broker}
getParentTopicInfo -b {broker} -p Golden
getLiteTopicInfo -b {broker} -p Golden -l lite
getLiteClientInfo -b {broker} -p Golden -g GoldenLive -c {client_id}
getLiteGroupInfo -b {broker} -g GoldenLive -l lite
triggerLiteDispatch -b {broker} -g GoldenLive
"""

_AT_THE_END: Final = """
wipeWritePerm -b broker-a
addWritePerm -b broker-a
updateOrderConf -t GoldenOrdered -m delete
deleteKvConfig -s golden -k key
deleteSubGroup -b {broker} -g GoldenLive -r true
deleteTopic -t GoldenOrdered -c DefaultCluster
"""


@dataclass(frozen=True, slots=True)
class AdminCommands:
    """Arguments of mqadmin: `before` needs the running consumer, `after` follows its end."""

    before: list[list[str]]
    after: list[list[str]]


def admin_commands(values: Mapping[str, str]) -> AdminCommands:
    """Give the commands with `values` in place of the placeholders."""
    return AdminCommands(_arguments(_WHILE_CONSUMING, values), _arguments(_AT_THE_END, values))


def _arguments(text: str, values: Mapping[str, str]) -> list[list[str]]:
    lines = (line.split() for line in text.strip().splitlines())
    return [[word.format_map(values) for word in words] for words in lines]
