-- http-request lua.admitd ADDRESS INGRESS asks admitd about the request, and
-- answers the client when it is refused. With admitd away requests pass.
local TIMEOUT_MS = 250
local TOKEN = nil -- of decisions.tokenFile

local REASONS = { [400] = "Bad Request", [429] = "Too Many Requests", [503] = "Service Unavailable" }

-- What must not travel as it is: hop by hop, about a body that is not sent, or
-- ours to say.
local DROPPED = {
  connection = true, ["content-length"] = true, ["transfer-encoding"] = true, expect = true, upgrade = true,
  ["x-admitd-token"] = true, ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-for"] = true,
}

local function question(txn)
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    if not DROPPED[name] then
      local list = {}
      for _, value in pairs(values) do list[#list + 1] = value end
      headers[name] = list
    end
  end
  headers["x-forwarded-method"] = { txn.f:method() }
  headers["x-forwarded-uri"] = { txn.f:pathq() }
  headers["x-forwarded-for"] = { txn.f:src() }
  if TOKEN then headers["x-admitd-token"] = { TOKEN } end
  return headers
end

core.register_action("admitd", { "http-req" }, function(txn, address, ingress)
  local answer = core.httpclient():get {
    url = "http://" .. address .. "/v1/authorize?ingress=" .. ingress,
    headers = question(txn),
    timeout = TIMEOUT_MS,
  }
  if not answer or not REASONS[answer.status] or not answer.headers["x-admitd-status"] then
    return -- admitted, or admitd is away
  end
  local reply = txn:reply()
  reply:set_status(answer.status, REASONS[answer.status])
  for _, name in ipairs { "content-type", "retry-after", "ratelimit", "ratelimit-policy", "x-admitd-reason", "cache-control" } do
    for _, value in pairs(answer.headers[name] or {}) do reply:add_header(name, value) end
  end
  reply:set_body(answer.body)
  txn:done(reply)
end, 2)
