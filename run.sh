# $1 name $2 listen port $3 cluster port
exec env HOME=/tmp/w/cl/home-$1 XDG_RUNTIME_DIR=/tmp/w/cl/home-$1 /tmp/w/troupe serve --listen ws://127.0.0.1:$2 --cluster static:127.0.0.1:8101,127.0.0.1:8102,127.0.0.1:8103 --node $1 --advertise 127.0.0.1:$3 --cluster-cert /tmp/w/cl/$1.pem --cluster-key /tmp/w/cl/$1.key --cluster-ca /tmp/w/cl/ca.pem --log-level debug > /tmp/w/cl/$1.log 2>&1
