#!/usr/bin/env bash
# Make Hadoop 2.7.3 in the current folder for the tests: a NameNode and a DataNode, the client's jars, and libhdfs.so. Neither
# Debian nor PyPI has Hadoop itself. We take the jars from pyspark 2.1.2 (later ones lack the servers), and compile the C
# library from the sources in pydoop 2.0.0.
#
#   jars/*.jar  lib/native/libhdfs.so  www/webapps (empty pages: the servers do not start without them)
set -euo pipefail

readonly jdk=/usr/lib/jvm/java-17-openjdk-amd64
readonly pyspark_sha256=8680dcbc98e95a32f89bea70e114e139eae3543c094f063d548863522bdc4370
readonly pydoop_sha256=c7eb2ad8c36d2a75dc1c6cee701928334614f2e862a70798b0cb278e3102f77d

# sdist NAME VERSION SHA256: download a source package. pip would first run its setup.py, which needs what we lack.
sdist() {
  local file="$1-$2.tar.gz" index="${PIP_INDEX_URL:-https://pypi.org/simple}" url
  url="$(curl -fsSL "${index%/}/$1/" | python3 -c 'import re, sys, urllib.parse
page, base, file = sys.stdin.read(), sys.argv[1], sys.argv[2]
print(urllib.parse.urljoin(base, re.search(rf"href=\"([^\"#]*{re.escape(file)})", page)[1]))' "${index%/}/$1/" "$file")"
  curl -fsSL --retry 3 -o "$file" "$url"
  printf '%s  %s\n' "$3" "$file" | sha256sum --check --quiet
}

sdist pyspark 2.1.2 "$pyspark_sha256"
mkdir -p jars lib/native www/webapps
tar xzf pyspark-2.1.2.tar.gz -C jars --strip-components=3 --wildcards '*/jars/*.jar'
# Of Spark's two hundred jars, keep those that Hadoop's own programs load.
needed='hadoop-(common|hdfs|auth|annotations)-2|commons-(lang-2|logging|codec|configuration|collections|io|cli|math3|net|httpclient|compress)'
needed+='|guava-14|jsr305|log4j-1.2|slf4j-(api|log4j12)|protobuf-java|htrace-core|netty-|jetty-|javax.servlet-api|javax.ws.rs-api'
needed+='|jackson-(core|mapper)-asl|leveldbjni|xmlenc|jaxb-api|activation|xercesImpl|httpclient-4|httpcore-4|avro-1.7.7'
find jars -name '*.jar' -printf '%f\n' | grep -vE "^($needed)" | sed 's|^|jars/|' | xargs rm -f

sdist pydoop 2.0.0 "$pydoop_sha256"
tar xzf pydoop-2.0.0.tar.gz
(
  cd pydoop-2.0.0/src/libhdfs
  gcc -O2 -w -fPIC -shared -o ../../../lib/native/libhdfs.so -I. -Iinclude -Icommon -Ios -Ios/posix -I"$jdk/include" \
    -I"$jdk/include/linux" exception.c hdfs.c jni_helper.c common/htable.c os/posix/mutexes.c os/posix/thread_local_storage.c \
    -L"$jdk/lib/server" -ljvm "-Wl,-rpath,$jdk/lib/server"
)
for page in hdfs datanode static secondary; do
  mkdir -p "www/webapps/$page/WEB-INF"
  printf '<web-app/>\n' >"www/webapps/$page/WEB-INF/web.xml"
done
rm -rf -- pydoop-* pyspark-*.tar.gz
