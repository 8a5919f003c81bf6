package transport

import (
	"crypto/tls"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testca"
)

// overTLS makes serve, dial and newPeer use TLS. Nil: they use TCP alone.
var overTLS *tlsPair

type tlsPair struct{ server, client *tls.Config }

// newTLSPair returns configurations with a certificate for 127.0.0.1.
func newTLSPair(t *testing.T) *tlsPair {
	t.Helper()
	ca := testca.New(t)
	cert, key := ca.Server(t, "server")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return &tlsPair{&tls.Config{Certificates: []tls.Certificate{pair}}, ca.Client(t, nil)}
}

// Everything that holds without TLS holds with it.
func TestOverTLS(t *testing.T) {
	overTLS = newTLSPair(t)
	t.Cleanup(func() { overTLS = nil }) // after the subtests that run in parallel
	for name, test := range map[string]func(*testing.T){
		"messages of all sizes":     TestMessagesOfAllSizes,
		"hand over":                 TestHandOver,
		"limits":                    TestLimits,
		"memory":                    TestMemoryFollowsWhatArrives,
		"ends":                      TestHowConnectionsEnd,
		"close once":                TestCloseIsSaidOnce,
		"a peer that does not read": TestWriteToOneThatDoesNotRead,
		"close ends blocked calls":  TestCloseEndsBlockedCalls,
		"pings":                     TestPingsDoNotStopTheReader,
		"ping is answered":          TestPingIsAnswered,
		"held messages":             TestHeldMessages,
		"pongs follow messages":     TestPongsFollowMessages,
		"keep-alive":                TestKeepAliveOvertakesNothing,
		"nothing after close":       TestNothingAfterClose,
		"keep-alive repeats pings":  TestKeepAliveRepeatsAnUnansweredPing,
		"half-open is dead":         TestHalfOpenIsDeadAtBothEnds,
		"subprotocols":              TestSubprotocols,
		"connections that are cut":  TestGone,
	} {
		t.Run(name, test)
	}
}
