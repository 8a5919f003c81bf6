package client

import (
	"context"

	"github.com/b6f6fdd7/troupe/protocol"
)

// SessionInfo describes the session of this client.
func (c *Client) SessionInfo(ctx context.Context) (protocol.SessionInfoResult, error) {
	return ask[protocol.SessionInfoResult](ctx, c, protocol.MethodSessionInfo, protocol.Empty{})
}

// ServerInfo describes the server and its use of the machine. A server that asks for credentials tells
// only an operator everything: for others, all members except AboutServer are zero.
func (c *Client) ServerInfo(ctx context.Context) (protocol.ServerInfoResult, error) {
	return ask[protocol.ServerInfoResult](ctx, c, protocol.MethodServerInfo, protocol.Empty{})
}

// ServerEvents returns events of the sessions that this client may observe, the oldest first. To follow what happens, send each
// NextUs as the next AfterUs: then no event is told twice, and a WholeUs later than AfterUs tells of events that the server has forgotten.
func (c *Client) ServerEvents(ctx context.Context, params protocol.ServerEventsParams) (protocol.ServerEventsResult, error) {
	return ask[protocol.ServerEventsResult](ctx, c, protocol.MethodServerEvents, params)
}

// Environment describes the machine of the server: its user, directories, shell and capabilities.
func (c *Client) Environment(ctx context.Context) (protocol.EnvironmentInfo, error) {
	return ask[protocol.EnvironmentInfo](ctx, c, protocol.MethodEnvironmentInfo, protocol.NoParams{})
}

// Status returns "ready" if the server answers. Other servers of the wire may return other words.
func (c *Client) Status(ctx context.Context) (string, error) {
	result, err := ask[protocol.EnvironmentStatusResult](ctx, c, protocol.MethodEnvironmentStatus, protocol.Empty{})
	return result.Status, err
}

// Has reports whether the server has a capability of EnvironmentInfo, as of the last connection.
func (c *Client) Has(capability string) bool {
	info := c.lastHello().EnvironmentInfo
	return info != nil && info.Capabilities[capability]
}

// Limits returns the server's limits, as of the last connection.
func (c *Client) Limits() protocol.Limits { return c.lastHello().Limits }

// Nodes returns the nodes of the cluster of the server. A server that is alone refuses (errors.ErrUnsupported).
func (c *Client) Nodes(ctx context.Context) (protocol.ClusterNodesResult, error) {
	return ask[protocol.ClusterNodesResult](ctx, c, protocol.MethodClusterNodes, protocol.Empty{})
}

// DrainNode has a node of the cluster open no session from now on, or takes that back. Only operators may.
func (c *Client) DrainNode(ctx context.Context, params protocol.ClusterDrainParams) error {
	_, err := ask[protocol.Empty](ctx, c, protocol.MethodClusterDrain, params)
	return err
}
