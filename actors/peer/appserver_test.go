package peer

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/connection/greeting"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A gateway reads the greeting of a client of either wire, and has the error that answers a wrong one.
func TestGreeting(t *testing.T) {
	for frame, want := range map[string]struct {
		client, session, err string
		about                identity.About
	}{
		`{"id":1,"method":"initialize","params":{"clientName":"n","resumeSessionId":"s"}}`:                       {client: "n", session: "s"},
		`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"n","version":"1"}}}`:                      {client: "n"},
		`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"n"}}}`:                                    {err: "Invalid request: missing field `version`"},
		`{"id":1,"method":"initialize","params":{}}`:                                                             {err: "missing field `clientName`"},
		`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"bad\rname","version":"1"}}}`:              {err: "Invalid clientInfo.name: 'bad\rname'. Must be a valid HTTP header value."},
		`{"id":1,"method":"process/list"}`:                                                                       {err: "the first message of a client is not initialize"},
		`{"id":1,"method":"initialize","params":{"clientName":"n","token":"t"}}`:                                 {about: identity.About{ReadsToken: true}, client: "n"},
		`{"id":2,"method":"initialize","params":{"clientName":"n","token":"t"}}`:                                 {err: noToken},
		`{"id":2,"method":"initialize","params":{"clientInfo":{"name":"n","version":"1"},"token":"t"}}`:          {err: "Invalid request: " + noToken},
		`{"id":3,"method":"initialize","params":{"clientInfo":{"name":"n","version":"1"},"resumeFrom":{"p":1}}}`: {about: identity.About{Identity: identity.Identity{Guest: new(identity.Guest)}}, err: "the token of a share is not for clients of the app-server: send initialize with clientName"},
	} {
		g, err := greeting.Read(protocol.JSON, []byte(frame), &want.about, appServer{})
		if (err != nil) != (want.err != "") || err != nil && err.Message != want.err {
			t.Errorf("%s: %v, want %q", frame, err, want.err)
		}
		session := ""
		if g.ResumeSessionID != nil {
			session = *g.ResumeSessionID
		}
		if err == nil && (g.ClientName != want.client || session != want.session) {
			t.Errorf("%s: client %q, session %q", frame, g.ClientName, session)
		}
	}
	// Clients compare the error of a wrong name with the peer's, which has no data.
	if err := (client{info: protocol.ClientInfo{Name: "bad\rname"}}).Check(new(identity.About)); err == nil || err.Code != protocol.CodeInvalidRequest || err.Data != nil {
		t.Errorf("a name with a control character: %+v", err)
	}
}

const noToken = "token is only for length-prefixed frames on a socket: on a websocket send the header Authorization, and elsewhere no credential"

// A method that needs a capability is refused to clients of the app-server without the capability, and to
// no others.
func TestExperimentalMethods(t *testing.T) {
	const refused = "process/kill requires experimentalApi capability"
	for params, want := range map[string]bool{
		`{"clientInfo":{"name":"n","version":"1"}}`:                                         true,
		`{"clientInfo":{"name":"n","version":"1"},"capabilities":{"experimentalApi":true}}`: false,
		`{"clientName":"n"}`: false,
	} {
		fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			session := spawn(func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if m, ok := ctx.Message().(message.Attach); ok {
						ctx.Respond(message.Attached{Token: m.Token, SessionID: "s", Session: ctx.Self(), Role: protocol.RoleOwner})
					}
				})
			})
			ours, theirs := transport.Pipe("")
			e := &env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults(), Info: new(protocol.EnvironmentInfo)}
			c := connection.New(e, Methods, session, message.Connect{Conn: theirs})
			spawn(func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if _, ok := ctx.Message().(*actor.Started); ok {
						ctx.Spawn(c)
					}
				})
			})
			for _, text := range []string{`{"id":1,"method":"initialize","params":` + params + `}`, `{"method":"initialized"}`, `{"id":2,"method":"process/kill","params":{"processHandle":"h"}}`} {
				if err := ours.WriteMessage([]byte(text), false); err != nil {
					t.Fatal(err)
				}
			}
			for {
				msg, err := ours.ReadMessage()
				if err != nil {
					t.Fatal(err)
				}
				var answer struct {
					ID    int
					Error struct{ Message string }
				}
				if err := json.Unmarshal(msg, &answer); err != nil {
					t.Fatal(err)
				}
				if answer.ID == 2 {
					if got := answer.Error.Message; (got == refused) != want || got == "" {
						t.Errorf("%s: %q", params, got)
					}
					break
				}
			}
			ours.Close(protocol.CloseNormal, "")
		})
	}
}
