"""The commands that both versions run, in the old version's words, one a line.

They run in a folder of their own. {samples}, {recorded}, {counted}, {what_ifs} are folders of this
repository, {inputs} has the traces that `inputs` made. `!` before a line: it must fail.
"""

from __future__ import annotations

SAMPLES = ("oltp", "gnuplot", "sysbench", "video", "browser")
PROFILES = ("web-server", "paging", "log-structured")
PERSONALITIES = ("fileserver", "webserver", "webproxy", "varmail", "zip", "unzip", "ffsb")

OF_A_SAMPLE = """
parse {samples}/NAME -o NAME
classify NAME
analyze NAME
recommend NAME
simulate tiers NAME --extent 64MiB --step 5
simulate cache NAME
simulate buffer NAME
simulate sensitivity NAME
simulate endurance NAME
fit NAME -o NAME.toml
sql NAME "select role, operation, count(*), sum(length_bytes) from requests group by all order by all"
export NAME --format blkparse -o NAME.blkparse
export NAME --format fio -o NAME.fio-log
export NAME --format msr -o NAME.csv
export NAME --format oracleGeneral -o NAME.oracle
replay NAME --dry-run
"""

OF_TWO_SAMPLES = """
report NAME -o NAME.html
replay NAME --engine null --pace fast
replay NAME --dry-run --level issued
replay NAME --dry-run --placement answer --engine emulated --device hdd-7200 --device nvm=dax-pcm
replay NAME --dry-run --target journal=journal.img --target rest.img --start 1s --end 20s
replay NAME --dry-run --pace closed --limit 1000
recommend NAME --capacity 4MiB,16M,64MiB --coverage start
simulate endurance NAME --placement 16M --write-amplification 2
recommend NAME --base hdd-7200-seek
recommend NAME --queueing open --capacity 16MiB --level queued
simulate sensitivity NAME --windows 4 --factors 0.25,3
replay NAME --dry-run --placement 16MiB --engine emulated --device hdd-7200 --device nvm=ssd-optane
"""

MORE = """
parse {samples}/oltp -o forced
parse {samples}/oltp/oltp.blktrace.0.xz -o one-file
classify one-file --role loop0p1=other
classify forced --role loop0p1=swap --hot 0.3 --hot-factor 4 --window 2 --memory 16MiB
analyze forced --only mix --only latency --only hottest
recommend forced --nvm ssd-optane --base ssd-emlc --max-capacity 200MiB
simulate tiers forced --extent 16MiB --step 20 --dynamic --window 5 --charge-migration --amount requests --rounding nearest
simulate tiers forced --extent 16MiB --step 10 --dynamic --window 3 --charge-migration --move-by bandwidth --promotion-cost 2 --vary ssd-pcm.price=0.5,2
simulate tiers forced --extent 32MiB --step 10 --what-if {what_ifs}/tiers-in-euro.toml
simulate cache forced --policy lru,arc,s3-fifo,optimum --write back --write-miss bypass --levels inclusive --level-write back
simulate cache forced --page 16KiB --sizes 4MiB,16MiB,64MiB --level-policy pcm=arc,flash=clock --vary pcm.price=0.25,4
simulate cache forced --sample-rate 0.1 --volumes 0
simulate cache forced --samples 5000
simulate buffer forced --what-if {what_ifs}/buffers-of-other-memories.toml --sizes 32,4KiB --buffers 1,64 --access 32
simulate endurance forced --what-if {what_ifs}/endurance-of-a-dimm.toml
fit forced -o measured.toml --measured --names --seed 4 --limit 20000
run {samples}/video -o whole --replay none
sql whole --describe
verify-placement sysbench --seconds 0.2 --repeats 1
compare oltp trace latest
! generate out-of-nowhere -o none
! parse none -o none
! import {inputs}/nothing -o none
! recommend oltp --base none
! recommend oltp --queueing never
! replay oltp --dry-run --target oltp/requests.parquet
! sql oltp "select * from nowhere"
! sql oltp "copy requests to 'x.csv'"
counters -o counted --workload a --from {counted}/hardware-1.json=10 --from {counted}/hardware-2.json=12 --from {counted}/hardware-3.json=15
counters -o counted --workload b --from {counted}/hardware-4.json=9 --from {counted}/hardware-5.json=14 --from {counted}/hardware-6.json=3
counters -o counted --workload c --from {counted}/software.csv=7
characterize-device --device dax-pcm -o measured --quick --scale 0.01 --size 64MiB
"""

IMPORTS = """
import {inputs}/blkreplay -o i-blkreplay
import {inputs}/msr -o i-msr
import {inputs}/spc -o i-spc
import {inputs}/alibaba -o i-alibaba
import {inputs}/tencent -o i-tencent
import {inputs}/systor -o i-systor
import {inputs}/fiu -o i-fiu
import {inputs}/mqsim -o i-mqsim
import {inputs}/disksim -o i-disksim
import {inputs}/arc -o i-arc
import {inputs}/vscsi1 -o i-vscsi1
import {inputs}/vscsi2 -o i-vscsi2
import {inputs}/oracle -o i-oracle
import {inputs}/octf -o i-octf
import {inputs}/fio2 -o i-fio2
import {inputs}/biosnoop -o i-biosnoop
import {inputs}/biosnoop_queue -o i-biosnoop-queue
import {inputs}/dated -o i-dated
import {inputs}/columns -o i-columns --delimiter ; --columns -,time,op,length,offset,response --unit time=us --unit offset=sectors --unit length=sectors --unit response=ns
import {inputs}/worded -o i-worded --regex "^at (?P<time>[0-9]+): +(?P<op>\\w+) (?P<length>[0-9]+)@(?P<offset>[0-9]+)$" --unit time=us --unit offset=sectors --unit length=sectors
import {inputs}/damaged -o i-damaged
import {inputs}/shuffled -o i-shuffled
import {recorded}/blk.txt.xz -o i-blk
import {recorded}/blk_classic.txt.xz -o i-blk-classic
import {recorded}/ftrace.txt.xz -o i-ftrace
import {recorded}/perf.txt.xz -o i-perf
import {recorded}/perf_ns.txt.xz -o i-perf-ns
import oltp.blkparse -o i-blkparse
import oltp.fio-log -o i-fio3
import oltp.csv -o i-exported-msr
import oltp.oracle -o i-exported-oracle
classify i-msr
analyze i-msr
recommend i-msr --capacity 1MiB,8MiB
replay i-msr --dry-run
classify i-ftrace
recommend i-ftrace
! import {inputs}/damaged -o i-refused --max-bad 0.01
! import {inputs}/msr -o i-refused --format spc
! import {inputs}/columns -o i-refused --delimiter ; --columns -,time,op,length,offset,response --unit time=s --unit length=pages
"""

OF_A_PROFILE = """
generate NAME -o g-NAME --requests 20000 --seed 3
generate NAME -o g-NAME.plan --format plan --requests 20000 --seed 4
generate NAME -o g-NAME.fio-job --format fio
generate NAME -o g-NAME-sized --duration 2s --target-size 2GiB
bench NAME -o b-NAME --requests 3000 --engine null --pace fast --no-report
fit g-NAME -o g-NAME.toml --seed 2
"""

OF_A_PERSONALITY = """
bench NAME -o f-NAME --target work --files 30 --threads 3 --duration 0.1s --no-report
sweep NAME -o s-NAME --target work --files 20,40 --threads 2 --io-size 4KiB --seed 5 --runs 1 --duration 0.05s --no-report
"""

FILE_CAPTURE = """
capture --files --below {inputs}/below -o captured -- true
analyze captured
replay captured --files work --pace fast
replay captured --files work --pace trace --speed 1000 --limit 500 --name part
"""

OLD_FOLDERS = """
analyze NAME
sql NAME "select count(*) as requests, sum(length_bytes) as bytes from requests"
sql NAME "select * from findings.mix order by all"
report NAME -o NAME-again.html
"""


def all_steps() -> list[str]:
    """Return the lines to run, in order."""
    groups = [(OF_A_SAMPLE, SAMPLES), (OF_TWO_SAMPLES, SAMPLES[:2]), (IMPORTS, ("",)), (MORE, ("",)), (OF_A_PROFILE, PROFILES)]
    groups += [(OF_A_PERSONALITY, PERSONALITIES), (FILE_CAPTURE, ("",))]
    return [
        line.replace("NAME", name)
        for text, names in groups
        for name in names
        for line in text.strip().splitlines()
    ]
