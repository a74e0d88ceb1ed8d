"""hdfs_server.py HADOOP FOLDER: run an empty HDFS of one NameNode and one DataNode. Prints its URL once it can be written to.

SIGUSR1 kills the NameNode (SIGKILL), SIGUSR2 starts it again.
"""
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

hadoop, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
java_home = "/usr/lib/jvm/java-17-openjdk-amd64"
# A Hadoop of 2016 needs these options with a Java of 2021.
opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED"
         for name in ("java.lang", "java.util", "java.net", "java.nio", "java.io", "sun.nio.ch")]
opens += ["--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED"]
classpath = ":".join([str(folder / "conf"), str(hadoop / "www"), *map(str, sorted(hadoop.glob("jars/*.jar")))])


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    return [each.getsockname()[1] for each in sockets]


def write_conf(name, values):
    entries = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
    (folder / "conf" / name).write_text(f"<configuration>{entries}</configuration>")


def java(main, *arguments):
    def die_with_parent():
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)

    log = open(folder / "hdfs.log", "ab")
    return subprocess.Popen([f"{java_home}/bin/java", *opens, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                             "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={folder}/java",
                             f"org.apache.hadoop.hdfs.server.{main}", *arguments],
                            env={**os.environ, "CLASSPATH": classpath}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                            preexec_fn=die_with_parent)


rpc, http, data, data_ipc, data_http = free_ports(5)
(folder / "conf").mkdir(parents=True)
(folder / "java").mkdir()
write_conf("core-site.xml", {"fs.defaultFS": f"hdfs://127.0.0.1:{rpc}", "hadoop.tmp.dir": folder / "tmp",
                             "ipc.client.connect.max.retries": 1})
write_conf("hdfs-site.xml", {
    "dfs.replication": 1, "dfs.permissions.enabled": "false", "dfs.webhdfs.enabled": "false",
    "dfs.namenode.name.dir": f"file://{folder}/name", "dfs.datanode.data.dir": f"file://{folder}/data",
    "dfs.namenode.rpc-address": f"127.0.0.1:{rpc}", "dfs.namenode.http-address": f"127.0.0.1:{http}",
    "dfs.datanode.address": f"127.0.0.1:{data}", "dfs.datanode.ipc.address": f"127.0.0.1:{data_ipc}",
    "dfs.datanode.http.address": f"127.0.0.1:{data_http}", "dfs.datanode.hostname": "127.0.0.1",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false", "dfs.heartbeat.interval": 1,
    "dfs.namenode.safemode.extension": 0, "dfs.namenode.safemode.min.datanodes": 1,
    "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER"})
(folder / "conf" / "log4j.properties").write_text(
    "log4j.rootLogger=ERROR,c\nlog4j.appender.c=org.apache.log4j.ConsoleAppender\nlog4j.appender.c.target=System.err\n"
    "log4j.appender.c.layout=org.apache.log4j.PatternLayout\nlog4j.appender.c.layout.ConversionPattern=%d %p %c{2}: %m%n\n")

java("namenode.NameNode", "-format", "-nonInteractive").wait()
name_node = java("namenode.NameNode")
data_node = java("datanode.DataNode")


def ready():
    query = f"http://127.0.0.1:{http}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
    try:
        with urllib.request.urlopen(query, timeout=5) as answer:
            state = json.load(answer)["beans"][0]
        return state["FSState"] == "Operational" and state["NumLiveDataNodes"] == 1
    except (OSError, ValueError, IndexError, KeyError):
        return False


while not ready():
    if data_node.poll() is not None or name_node.poll() is not None:
        sys.exit((folder / "hdfs.log").read_text())
    time.sleep(0.1)


def kill(*_):
    name_node.kill()
    name_node.wait()


def start(*_):
    global name_node
    name_node = java("namenode.NameNode")


signal.signal(signal.SIGUSR1, kill)
signal.signal(signal.SIGUSR2, start)
print(json.dumps({"url": f"hdfs://127.0.0.1:{rpc}",
                  "environment": {"JAVA_HOME": java_home, "ARROW_LIBHDFS_DIR": str(hadoop / "lib/native"),
                                  "CLASSPATH": classpath, "LIBHDFS_OPTS": " ".join([*opens, "-Xmx128m"])}}), flush=True)
while True:
    signal.pause()
