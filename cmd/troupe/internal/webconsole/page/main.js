// A place for the console: it logs in with the token of the fragment, opens the websocket, and says so.
const state = document.getElementById("state");
const said = new URLSearchParams(location.hash.slice(1));
const token = said.get("share") ?? said.get("token");
history.replaceState(null, "", location.pathname);
if (token) {
	await fetch("login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
}
const me = await (await fetch("me")).json();
const ws = new WebSocket(location.origin.replace(/^http/, "ws") + "/", ["troupe.json"]);
ws.onopen = () => { state.textContent = "connected as " + (me.identity ?? "everybody"); };
ws.onclose = () => { state.textContent = "not connected"; };
