#!/bin/bash
# The same jobs with troupe, process-compose, supervisord and tmux, in one run on one machine. A tool that is not in PATH is left out.
#
#   go build -o /some/dir/ ./cmd/troupe && PATH=/some/dir:$PATH tests/bench/others.sh
#
# Each line has a job and, for each tool, the figure and its ratio to that of troupe. Everything happens in a directory of its own
# and on loopback, takes about three minutes, and ends all that it has started.
set -u
dir=$(mktemp -d /tmp/troupe-others.XXXXXX) && cd "$dir" || exit 1
export XDG_RUNTIME_DIR=$dir HOME=$dir TMUX_TMPDIR=$dir PC_DISABLE_TUI=1 TERM=xterm TROUPE_URL= SHELL=/bin/sh
port=$((20000 + RANDOM % 10000))
mark=$((1000000 + RANDOM)) # of the programs: sleep $mark
tools=()
for tool in troupe process-compose supervisord tmux; do command -v $tool >/dev/null && tools+=($tool); done

now() { echo $(($(date +%s%N) / 1000)); } # microseconds
running() { pgrep -xfc "sleep $mark"; }
await() { # await N PROGRAMS: until so many run, for a minute at most
	for _ in $(seq 6000); do [ "$(running)" = "$1" ] && return; sleep 0.01; done
	echo "others.sh: $(running) programs run, want $1" >&2
}
files() { # files N: the same programs for each tool
	{ echo 'version: "0.5"'; echo 'processes:'
	for i in $(seq $1); do printf '  p%d:\n    command: "exec sleep %d"\n    availability: {restart: always, backoff_seconds: 1}\n' $i $mark; done; } >process-compose.yaml
	cat >supervisord.conf <<-END
	[unix_http_server]
	file=$dir/supervisor.sock
	[supervisord]
	logfile=$dir/supervisord.log
	pidfile=$dir/supervisord.pid
	childlogdir=$dir
	[rpcinterface:supervisor]
	supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
	[supervisorctl]
	serverurl=unix://$dir/supervisor.sock
	[program:p]
	command=sleep $mark
	process_name=p%(process_num)d
	numprocs=$1
	autorestart=true
	startsecs=0
	END
}
begin() { # begin TOOL N
	case $1 in
	troupe) troupe up -d -f process-compose.yaml ;;
	process-compose) process-compose up -D -f process-compose.yaml -p $port ;;
	supervisord) supervisord -c supervisord.conf ;;
	tmux)
		tmux new-session -d -s s "exec sleep $mark"
		for _ in $(seq 2 $2); do echo "new-window -d 'exec sleep $mark'"; done >windows
		[ $2 = 1 ] || tmux source-file windows ;;
	esac >>$1.log 2>&1
}
end() {
	case $1 in
	troupe) troupe down -f process-compose.yaml ;;
	process-compose) process-compose down -p $port ;;
	supervisord) supervisorctl -c supervisord.conf shutdown ;;
	tmux) tmux kill-server ;;
	esac >>$1.log 2>&1
}
list() {
	case $1 in
	troupe) troupe ps ;;
	process-compose) process-compose process list -p $port ;;
	supervisord) supervisorctl -c supervisord.conf status ;;
	tmux) tmux list-windows -t s ;;
	esac >>$1.log 2>&1
}
server() { # the files of /proc with this name of the processes of the supervisor: troupe has two, the server and its holder
	case $1 in
	troupe) pgrep -f "troupe(-server)? serve .*$dir" ;;
	process-compose) pgrep -f "process-compose up .*-p $port" | head -1 ;;
	supervisord) cat supervisord.pid ;;
	tmux) tmux display-message -p '#{pid}' ;;
	esac | sed "s:.*:/proc/&/$2:"
}
declare -A figure
jobs=()
note() { # note JOB TOOL FIGURE
	[[ " ${jobs[*]-} " == *" $1 "* ]] || jobs+=("$1")
	figure[$1,$2]=$3
}
took() { # took JOB TOOL COMMAND...: in milliseconds
	local job=$1 tool=$2 t=$(now)
	shift 2
	"$@"
	note "$job" $tool $(awk "BEGIN {print ($(now) - $t) / 1000}")
}
begun() { begin $1 $2; await $2; }
ended() { end $1; await 0; }
trap 'for t in "${tools[@]}"; do end $t; done; troupe server stop --force >/dev/null 2>&1; pkill -xf "sleep $mark"; rm -rf "$dir"' EXIT

for tool in "${tools[@]}"; do
	[ $tool = troupe ] && troupe run -- true >/dev/null 2>&1 # its server runs, as tmux's does after the first session
	for n in 1 50 200; do
		files $n
		took "start-of-$n-ms" $tool begun $tool $n
		if [ $n = 200 ]; then
			note memory-at-200-KiB $tool $(awk '/^Pss:/ {n += $2} END {print n}' $(server $tool smaps_rollup))
			before=$(awk '{n += $14 + $15} END {print n}' $(server $tool stat))
			sleep 10
			after=$(awk '{n += $14 + $15} END {print n}' $(server $tool stat))
			note idle-CPU-at-200-permille $tool $(((after - before) * 1000 / 10 / $(getconf CLK_TCK)))
			took list-of-200-ms $tool list $tool
			if [ $tool != tmux ]; then # tmux restarts nothing
				victim=$(pgrep -xf "sleep $mark" | head -1)
				kill -9 $victim
				took restart-after-SIGKILL-ms $tool await 200
			fi
		fi
		took "stop-of-$n-ms" $tool ended $tool
	done
done

# Lines to a viewer: a program writes 100 MB of lines, and a viewer in a pipe shows all of them.
cat >lines.yaml <<END
version: "0.5"
processes:
  lines:
    command: "seq 1000000000 1009090908; exec sleep $mark"
END
for tool in troupe process-compose; do
	command -v $tool >/dev/null || continue
	t=$(now)
	case $tool in
	troupe) troupe up -d -f lines.yaml >>$tool.log 2>&1; timeout 60 troupe logs -f lines 2>>$tool.log ;;
	process-compose) process-compose up -D -f lines.yaml -p $port >>$tool.log 2>&1; sleep 0.2; timeout 60 process-compose process logs lines -f -n 10000000 -p $port 2>>$tool.log ;;
	esac | grep -n -m 1 1009090908 | cut -d: -f1 >shown
	note 'MB-of-lines-a-second' $tool $(awk "BEGIN {print 100e6 / ($(now) - $t)}")
	note 'lines-shown-of-9090909' $tool "$(cat shown || echo 0)"
	case $tool in troupe) troupe down -f lines.yaml ;; *) end $tool ;; esac >>$tool.log 2>&1
done

printf '%-28s' job
printf ' %26s' "${tools[@]}"
echo
for job in "${jobs[@]}"; do
	printf '%-28s' "${job//-/ }"
	for tool in "${tools[@]}"; do
		f=${figure[$job,$tool]-}
		printf ' %26s' "$(awk -v f="$f" -v t="${figure[$job,troupe]-}" 'BEGIN { if (f == "") print "-"; else if (t > 0) printf "%.1f (%.2f)", f, f / t; else printf "%.1f", f }')"
	done
	echo
done
