package control_test

import (
	"fmt"
	"strings"
	"testing"

	"bromure.io/tui/internal/control/wire"
)

// TestRefusals: what does not come from a front of this user, or makes no sense, reaches no service.
func TestRefusals(t *testing.T) {
	fake := newFake(t)
	_, c := serve(t, fake)
	const host = "Host: bromure\r\nConnection: close\r\n"
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", path, host, len(body), body)
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\n" + host + "\r\n" }
	for name, r := range map[string]struct{ request, status, say string }{
		"a web page":             {"GET /v1/health HTTP/1.1\r\n" + host + "Origin: http://bromure\r\n\r\n", "403", "web pages"},
		"a web page in disguise": {"GET /v1/health HTTP/1.1\r\n" + host + "Origin:\r\n\r\n", "403", "web pages"},
		"another host":           {"GET /v1/health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "403", "unknown host"},
		"a host in the URL":      {"GET http://evil.example/v1/health HTTP/1.1\r\n" + host + "\r\n", "403", "unknown host"},
		"loopback":               {"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "403", "unknown host"},
		"no host":                {"GET /v1/health HTTP/1.0\r\n\r\n", "403", "unknown host"},
		"no route":               {get("/v2/health"), "404", "no route"},
		"another method":         {post("/v1/health", "{}"), "404", "no route"},
		"a path":                 {get("/v1/workspaces/..%2fcanary"), "400", "must not contain a slash"},
		"a path escaped twice":   {get("/v1/workspaces/a%252fb"), "404", "a%2fb"},
		"a path as it is":        {get("/v1/workspaces/a/b"), "404", "no route"},
		"a NUL":                  {get("/v1/workspaces/a%00b"), "400", "control characters"},
		"an escape":              {get("/v1/workspaces/a%1b%5b2J"), "400", "control characters"},
		"half a character":       {get("/v1/workspaces/a%ff"), "400", "valid UTF-8"},
		"a flag":                 {get("/v1/ports/-rf"), "400", "begin with a dash"},
		"a log elsewhere":        {get("/v1/logs/w/..%2f..%2fx"), "400", "unknown log"},
		"a tail of words":        {get("/v1/logs/w/serial?tail=x"), "400", "number of lines"},
		"a name":                 {post("/v1/workspaces", `{"name":"a/b"}`), "400", "must not contain a slash"},
		"a negative size":        {post("/v1/workspaces", `{"cpus":-1}`), "400", "negative"},
		"an image elsewhere":     {post("/v1/workspaces", `{"image":"../x"}`), "400", "image reference"},
		"an unknown field":       {post("/v1/workspaces", `{"rm":true}`), "400", "unknown field"},
		"two values":             {post("/v1/workspaces", `{} {}`), "400", "more than one"},
		"no JSON":                {post("/v1/workspaces", `name=x`), "400", "read the request"},
		"nothing":                {post("/v1/workspaces", ``), "400", "read the request"},
		"too much":               {post("/v1/workspaces", `{"name":"`+strings.Repeat("a", 1<<20)+`"}`), "400", "more than 1048576 bytes"},
		"an unknown verb":        {post("/v1/do", `{"verb":"format","workspace":"w"}`), "400", "unknown verb"},
		"no workspace":           {post("/v1/do", `{"verb":"start"}`), "400", "must not be empty"},
		"a negative timeout":     {post("/v1/do", `{"verb":"stop","workspace":"w","timeout":-1}`), "400", "negative"},
		"an image to verify":     {post("/v1/images/..%2fx/verify", ``), "400", "image reference"},
		"attach without upgrade": {post("/v1/attach/w", `{"exec":{"argv":["true"]}}`), "400", "Upgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			got := raw(t, c, r.request)
			if !strings.HasPrefix(got, "HTTP/1.1 "+r.status+" ") && !strings.HasPrefix(got, "HTTP/1.0 "+r.status+" ") || !strings.Contains(got, r.say) {
				t.Errorf("want %s and %q, got %.300q", r.status, r.say, got)
			}
		})
	}
	upgrade := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\n%sUpgrade: %s\r\nContent-Length: %d\r\n\r\n%s", path, host, wire.Upgrade, len(body), body)
	}
	for _, r := range []struct{ request, say string }{
		{upgrade("/v1/attach/w", `{}`), "one of them"},
		{upgrade("/v1/attach/w", `{"exec":{"argv":["x"]},"console":{"name":"x"}}`), "one of them"},
		{upgrade("/v1/attach/w", `{"exec":{"argv":[]}}`), "no command"},
		{upgrade("/v1/attach/w", `{"exec":{"argv":["a\u0000b"]}}`), "NUL"},
		{upgrade("/v1/attach/w", `{"exec":{"argv":["x"],"env":{"A=B":"c"}}}`), "environment variable"},
		{upgrade("/v1/attach/w", `{"exec":{"argv":["x"],"size":{"cols":-1,"rows":1}}}`), "no terminal has that size"},
		{upgrade("/v1/attach/w", `{"exec":{"argv":["x","y"],"shell":true}}`), "one string"},
		{upgrade("/v1/attach/a%2fb", `{"exec":{"argv":["x"]}}`), "slash"},
		{upgrade("/v1/forward/w/localhost", ``), "HOST:PORT"},
		{upgrade("/v1/forward/w/localhost:0", ``), "HOST:PORT"},
		{upgrade("/v1/forward/w/localhost:99999", ``), "HOST:PORT"},
		{upgrade("/v1/forward/w/localhost:http", ``), "HOST:PORT"},
	} {
		if got := raw(t, c, r.request); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, r.say) {
			t.Errorf("%.100q: want %q, got %.300q", r.request, r.say, got)
		}
	}
}

// TestCurl is the debugger that docs/control-socket.md promises.
func TestCurl(t *testing.T) {
	_, c := serve(t, newFake(t))
	got := raw(t, c, "GET /v1/watch?once=1 HTTP/1.1\r\nHost: bromure\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.Contains(got, `"workspaces":[]`) {
		t.Errorf("%.300q", got)
	}
}
