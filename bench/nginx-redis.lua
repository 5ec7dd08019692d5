-- Asks Redis for each request, as lua-resty-redis would: a pooled connection and one EVALSHA. @X@ is filled in by harness.py.
local key = ngx.var.http_x_key or ""
local redis = ngx.socket.tcp()
if not redis:connect("127.0.0.1", @REDIS_PORT@) then return ngx.exit(503) end

local function ask(...)
  local words = {...}
  local out = {"*" .. #words .. "\r\n"}
  for i, word in ipairs(words) do
    word = tostring(word)
    out[i + 1] = "$" .. #word .. "\r\n" .. word .. "\r\n"
  end
  redis:send(out)
  return redis:receive()
end

local bucket = "request_rate_limiter.{" .. key .. "}."
local function decide(verb, script)
  return ask(verb, script, 2, bucket .. "tokens", bucket .. "timestamp", @RATE@, @RATE@, ngx.time(), 1)
end
local reply = decide("EVALSHA", "@SHA1@")
if reply and reply:sub(1, 9) == "-NOSCRIPT" then reply = decide("EVAL", SCRIPT) end
if reply ~= "*2" then
  redis:close()
  return ngx.exit(503)
end
local allowed, left = redis:receive(), redis:receive()
redis:setkeepalive(60000, 512)
ngx.header["X-RateLimit-Remaining"] = left:sub(2)
if allowed ~= ":1" then return ngx.exit(429) end
