"""What is typed at mqadmin to compare our broker with Java's: a line for each, in this order.

Placeholders stand for what only a run knows: {broker} and {namesrv} are addresses, {client} is a
consumer's id, {id} and {unique} are those of a message, {files} is the directory with `FILES`.

Behind a bar stands what is done with the output before it is compared:

    file NAME     what it has written to a file of JSON in {files} is shown as well
    grep WORDS    lines without any of the words go, but for headings (#)
    drop WORD     lines with the word go
    sort          Java's maps have no order
    keys          of "key: value" and "key = value" the keys only
    digits        whole numbers are not compared: they depend on what else is done with the broker
    ours          typed at our broker only, where the command does not apply
    4.9.7, 5.5.0  typed with this version only, which has such options
    endless       in a JVM of its own, as the command never ends, which is killed when it has shown
                  what is expected
    until         typed again until it shows what is expected: what it shows follows in its own time

A line whose command a version does not have is left out there. To add one, write it here, run

    ROKETTO_RECORD=1 ./dev test tests/interop/broker/test_mqadmin.py

which writes tests/golden/mqadmin anew, and look at what has changed there.
"""

from collections.abc import Iterable
from typing import Final

VERSIONS: Final = ("5.5.0", "4.9.7")

FILES: Final = {
    "topics.json": '[{"topicName":"AdmListed","readQueueNums":1,"writeQueueNums":1,"perm":6}]',
    "groups.json": '[{"groupName":"admListed","retryMaxTimes":7}]',
}
"""Input of the commands that read a file."""

LINES: Final = """
updateTopic -b {broker} -t AdmMade -r 3 -w 3 -p 6
updateTopic -c Interop -t AdmCluster -r 2 -w 2
updateTopic -b {broker} -t TBW102
updateTopic -b {broker} -t AdmAttributed -a +message.type=FIFO | 5.5.0
updateTopic -b {broker} -t AdmAttributed -a +color=red | 5.5.0
updateTopic -c NoSuchCluster -t AdmMade
updateTopicList -b {broker} -f {files}/topics.json
updateTopicPerm -b {broker} -t AdmMade -p 4 | until
updateTopicPerm -b {broker} -t AdmMissing -p 4
topicRoute -t AdmOrders
topicRoute -t AdmMissing
topicRoute -t AdmOrders -l
topicClusterList -t AdmOrders
topicStatus -t AdmOrders
topicStatus -t AdmMade
topicStatus -t AdmMissing
topicList | grep Adm | sort | until
topicList -c | grep Adm | sort | until
allocateMQ -t AdmOrders -i 10.0.0.1,10.0.0.2
updateOrderConf -t AdmMade -m put -v broker-a:3
updateOrderConf -t AdmMade -m get
updateOrderConf -t AdmMade -m delete
updateStaticTopic -c Interop -t AdmStatic -qn 2 | ours
updateSubGroup -b {broker} -g admMade -r 5 -q 2
updateSubGroup -c Interop -g admCluster
updateSubGroup -b {broker} -g admMade -s false --attributes +color=red | 5.5.0
updateSubGroupList -b {broker} -f {files}/groups.json
getConsumerConfig -g admMade
getConsumerConfig -g admListed
getConsumerConfig -g admMissing
setConsumeMode -b {broker} -t AdmOrders -g admMade -m POP -q 2
setConsumeMode -b {broker} -t AdmOrders -g admMade -m PULL
setConsumeMode -b {broker} -t AdmMissing -g admMade -m POP
consumerConnection -g admReaders
consumerConnection -g admMissing
producerConnection -g admProducers -t AdmOrders
producerConnection -g admMissing -t AdmOrders
producer -b {broker} | grep admProducers
consumerProgress -g admReaders | drop %RETRY% | until
consumerProgress -g admReaders -s true | drop %RETRY% | until
consumerProgress -g admMissing
consumerProgress | grep adm | sort
consumerStatus -g admReaders -i {client} | keys | drop %RETRY% | sort
consumerStatus -g admReaders
brokerConsumeStats -b {broker} | grep Adm | sort
brokerConsumeStats -b {broker} -l 1 | grep Adm
cloneGroupOffset -s admReaders -d admMade -t AdmOrders -o true
resetOffsetByTime -g admReaders -t AdmOrders -s now
resetOffsetByTime -g admOffline -t AdmOrders -s now
skipAccumulatedMessage -g admReaders -t AdmOrders
queryMsgById -t AdmSingle -i {id} | 5.5.0
queryMsgById -i {id} | 4.9.7
queryMsgById -t AdmOrders -i {order} -g admReaders -d {client} | digits | until | 5.5.0
queryMsgById -i {order} -g admReaders -d {client} | digits | until | 4.9.7
queryMsgById -t AdmOrders -i {order} -g admReaders -d nobody | 5.5.0
queryMsgById -i {order} -g admReaders -d nobody | 4.9.7
queryMsgByKey -t AdmSingle -k key1
queryMsgByUniqueKey -t AdmSingle -i {unique}
queryMsgByOffset -t AdmSingle -b broker-a -i 0 -o 0
queryMsgByOffset -t AdmSingle -b broker-a -i 0 -o 9
queryMsgTraceById -i {unique}
printMsg -t AdmSingle
printMsgByQueue -t AdmSingle -a broker-a -i 0 -p true -d true -f true
consumeMessage -t AdmSingle -b broker-a -i 0 -o 0 -c 2
sendMessage -t AdmSingle -p text -k key9 -c tagA -b broker-a -i 0
sendMessage -t AdmMade -p text -b broker-a -i 0
checkMsgSendRT -t AdmSent -a 3 -s 16 | digits
clusterRT -c Interop -a 2 -s 16 -i 600 | grep broker-a | endless
sendMsgStatus -b broker-a -s 16 -c 2
queryCq -t AdmSingle -q 0 -i 0 -c 2 -g admReaders -b {broker}
clusterList | grep broker-a | digits
clusterList -m | grep broker-a | digits
brokerStatus -b {broker} | keys | drop scheduleMessageOffset | sort
getBrokerConfig -b {broker} | keys | sort
getBrokerConfig -b {broker} | grep brokerRole flushDiskType messageDelayLevel | sort
getBrokerConfig -b {broker} | grep autoCreate maxMessageSize fileReservedTime deleteWhen | sort
updateBrokerConfig -b {broker} -k maxTransferCountOnMessageInMemory -v 33
updateBrokerConfig -b {broker} -k brokerConfigPath -v /tmp/x
updateBrokerConfig -b {broker} -k noSuchKey -v 1
cleanExpiredCQ -b {broker}
cleanUnusedTopic -b {broker}
deleteExpiredCommitLog -b {broker}
resetMasterFlushOffset -b {broker} -o 0
haStatus -b {broker} | digits
haStatus -b {broker} | drop MasterCommitLogMaxOffset
getBrokerEpoch -b broker-a | ours
setCommitLogReadAheadMode -b {broker} -m 0 | ours
getColdDataFlowCtrInfo -b {broker} | ours
updateColdDataFlowCtrGroupConfig -b {broker} -g admReaders -v 1024 | ours
removeColdDataFlowCtrGroupConfig -b {broker} -g admReaders | ours
exportMetadata -b {broker} -f {files} -t | file topic.json | grep Adm | sort
exportMetadata -b {broker} -f {files} -g | file subscriptionGroup.json | grep adm | sort
exportMetadata -c Interop -f {files} | file metadata.json | grep Adm | drop AdmCluster | sort
exportConfigs -c Interop -f {files} | file configs.json | drop masterBrokerSize | sort
exportMetrics -c Interop -f {files} | file metrics.json | keys | drop clientInfo | sort
exportPopRecord -b {broker} -d true | ours
checkRocksdbCqWriteProgress -c Interop -t AdmOrders | ours
rocksDBConfigToJson -c Interop -t topics -j {files} | grep (355) | ours
switchTimerEngine -b {broker} -e F | ours
addBroker -c {broker} -b /tmp/broker.conf | ours
removeBroker -c {broker} -b Interop:broker-a:0 | ours
createUser -b {broker} -u adm -p secret1 -t Normal | ours
updateUser -b {broker} -u adm -p secret2 | ours
getUser -b {broker} -u adm | ours
listUser -b {broker} | ours
createAcl -b {broker} -s User:adm -r Topic:AdmOrders -a Pub,Sub -d Allow | ours
updateAcl -b {broker} -s User:adm -r Topic:AdmOrders -a Pub -d Allow | ours
getAcl -b {broker} -s User:adm | ours
listAcl -b {broker} | ours
deleteAcl -b {broker} -s User:adm | ours
deleteUser -b {broker} -u adm | ours
updateAclConfig -b {broker} -a admKey -s admSecret1 -t DENY | ours
deleteAclConfig -b {broker} -a admKey | ours
updateGlobalWhiteAddr -b {broker} -g 127.0.0.1 | ours
clusterAclConfigVersion -b {broker} | ours
getAclConfig -b {broker} | ours
getBrokerLiteInfo -b {broker} | ours
getNamesrvConfig | keys | sort
updateNamesrvConfig -k enableTopicList -v true
statsAll -t AdmOrders | drop admMade | until
resetOffsetByTime -g admReaders -t AdmOrders -s now -b {broker} -q 1 -o 1 | 5.5.0
resetOffsetByTime -g admReaders -t AdmOrders -s now -b {broker} -q 1 -o 9 | 5.5.0
resetOffsetByTime -g admReaders -t AdmOrders -s now -b {broker} -q 9 -o 1 | 5.5.0
resetOffsetByTime -g admOffline -t AdmOrders -s now -b {broker} -q 1 -o 1 | 5.5.0
updateKvConfig -s adm -k key -v value
deleteKvConfig -s adm -k key
wipeWritePerm -b broker-a
addWritePerm -b broker-a
wipeWritePerm -b broker-z
deleteSubGroup -b {broker} -g admMade -r true
deleteSubGroup -b {broker} -g admMissing
deleteSubGroup -c Interop -g admCluster
deleteSubGroup -c NoSuchCluster -g admCluster
deleteTopic -t TBW102 -c Interop
deleteTopic -t AdmCluster -c Interop
noSuchCommand -t AdmOrders
updateTopic -t AdmMade -x
"""


NO_COMMAND: Final = "noSuchCommand"


def lines() -> list[str]:
    """The lines with their placeholders."""
    return LINES.strip().splitlines()


def lines_for(version: str, known: Iterable[str]) -> list[str]:
    """The lines for a version, which knows these commands."""
    names = {*known, NO_COMMAND}
    others = {f"| {other}" for other in VERSIONS if other != version}
    return [
        line for line in lines() if line.split()[0] in names and not line.endswith(tuple(others))
    ]


def is_ours_only(line: str) -> bool:
    """Whether a line is typed at our broker only."""
    return line.endswith("| ours")
