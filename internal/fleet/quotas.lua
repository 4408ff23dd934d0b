-- One call of one gate for some quotas of a group. It settles what the gate has
-- spent, shares the rates out by demand and grants tokens. Its cost does not
-- depend on the number of gates: what the other gates want is kept as sums, only
-- the caller's row is settled, and of the rows whose time has come a few are taken
-- per call. What the words mean is written in docs/fleet.md.
--
-- KEYS: the state of the group, its gates; then per quota a hash of rows and a
-- sorted set of their next events.
-- ARGV: id, name, T, G, E (microseconds), expected gates, leaving (0 or 1), hello
-- (0 = the gate was counted by another call, 1 = count it, 2 = and list all), live
-- and known gates as of the last hello, 1 = keep back what silent gates may spend;
-- then per quota: spent, demand (-1 = unknown), share, epoch, rate, burst, version,
-- piece: the most that one request was seen to cost.
-- Returns: "now live known version born id=name id=name ...", then per quota
-- "grant atonce share epoch wait rate burst version level gates", or "!" and an error.
local id, name = ARGV[1], ARGV[2]
local T, G, E = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local expected, leaving, hello = tonumber(ARGV[6]), ARGV[7] == '1', tonumber(ARGV[8])
local live, known, keepback = tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11] == '1'

local ROW_KEPT = 150000000 -- microseconds that a row without a lease is kept for its gate
local KEY_KEPT = 180000    -- milliseconds that a quota is kept that nobody asks for
local PEAK_KEPT = 60000000 -- microseconds that a gate is known that fell silent without leaving
local EVENTS = 4           -- rows of other gates that one call looks at

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- The group: since when it has been heard of without a gap, and who is there.
local state = redis.call('HMGET', KEYS[1], 'last', 'resumed', 'peak', 'peakat', 'version', 'born')
local last, resumed = tonumber(state[1]) or 0, tonumber(state[2]) or now
local peak, peakat = tonumber(state[3]) or 0, tonumber(state[4]) or now
local back = now < last - 1000000 -- the clock was set back
if now > last + E or back then
  resumed = now
end
now = math.max(now, math.min(last, now + 1000000))
-- The first write is one that Redis refuses when its memory is full.
redis.call('HSET', KEYS[1], 'last', string.format('%.0f', now), 'resumed', string.format('%.0f', resumed))
if back then
  redis.call('DEL', KEYS[2]) -- leases would end too late
  peak, peakat = 0, now
end
local listed = ''
if hello > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
  local member = id .. '=' .. name
  if leaving then
    redis.call('ZREM', KEYS[2], member)
    peak = peak - 1
  else
    redis.call('ZADD', KEYS[2], string.format('%.0f', now + T + E), member)
  end
  live = redis.call('ZCARD', KEYS[2])
  if live > peak or live == peak and now > peakat + PEAK_KEPT / 10 or now > peakat + PEAK_KEPT or leaving then
    peak, peakat = math.max(live, now > peakat + PEAK_KEPT and 0 or peak), now
    redis.call('HSET', KEYS[1], 'peak', string.format('%.0f', peak), 'peakat', string.format('%.0f', peakat))
  end
  known = math.max(peak, expected)
  if hello > 1 then
    listed = ' ' .. table.concat(redis.call('ZRANGE', KEYS[2], 0, 199), ' ')
  end
  redis.call('PEXPIRE', KEYS[2], math.max(60000, math.ceil(E / 500)))
end
redis.call('PEXPIRE', KEYS[1], math.max(600000, math.ceil(E / 500)))
local out = { string.format('%.0f %.0f %.0f %s %s', now, live, known, state[5] or '0', state[6] or '-') .. listed }

local stamp, runs_out, ends = string.format('%.0f', now), string.format('%.0f', now + G), string.format('%.0f', now + T + E)

-- The part of a rate that the gates may have that are there.
local held = 1
if keepback and known > live then
  held = math.max(live, 1) / known
end

-- A gate's row: share, grant, when it has run out, presumed, spent before, want,
-- end of the lease, state (0 = granted at once, 1 = flows, 2 = its lease is over and
-- it is in no sum), tokens it saves for.
local function row(text)
  local share, grant, out_at, presumed, before, want, ends, mode, save =
    string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ([012]) (%S+)$')
  local r = {
    share = tonumber(share), grant = tonumber(grant), out_at = tonumber(out_at), presumed = tonumber(presumed),
    before = tonumber(before), want = tonumber(want), ends = tonumber(ends), mode = tonumber(mode), save = tonumber(save),
  }
  if r.share and r.grant and r.out_at and r.presumed and r.before and r.want and r.ends and r.mode and r.save then
    return r
  end
end

local function words(r)
  return string.format('%.6f %.6f %.0f %.6f %.6f %.6f %.0f %d %.6f', r.share, r.grant, r.out_at, r.presumed, r.before, r.want,
    r.ends, r.mode, r.save)
end

-- count adds a row to the sums of a quota (by = 1), or takes it out (by = -1).
-- Wants are kept by classes of half an octave: how many, and their sum.
local function count(s, r, by)
  s.n = s.n + by
  s.total = s.total + by * r.want
  if r.save > 0 then
    s.saved, s.poor = s.saved + by * r.save, s.poor + by
  end
  if r.want > 0 then
    local i = math.floor(math.log(r.want) * 2.8853900817779268)
    local class = s.classes[i] or { 0, 0 }
    class[1], class[2] = class[1] + by, class[2] + by * r.want
    s.classes[i] = class
    if class[1] <= 0 then
      s.classes[i] = nil
    end
  end
  if s.n <= 0 then
    s.n, s.total, s.saved, s.poor, s.classes = 0, 0, 0, 0, {}
  end
end

-- fair shares a rate out: everybody gets what he wants, or the same as all who
-- want more; what is left goes to all alike. It returns the caller's share, and
-- which part of what all lack he lacks. Those of one class count as its mean, which
-- never makes the shares more than the rate.
local function fair(rate, s, mine)
  local total, n = s.total + mine, s.n + 1
  if total <= rate then
    return mine + (rate - total) / n, 1 / n
  end
  local list, m = { { mine, 1 } }, 1
  for _, class in pairs(s.classes) do
    list[#list + 1] = { class[2] / class[1], class[1] }
    m = m + class[1]
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  local left = rate
  for i = 1, #list do
    local even = left / m
    if list[i][1] > even then
      local lack = 0
      for j = i, #list do
        lack = lack + (list[j][1] - even) * list[j][2]
      end
      return math.min(mine, even), math.max(mine - even, 0) / lack
    end
    left = left - list[i][1] * list[i][2]
    m = m - list[i][2]
  end
  return mine, 1 / n
end

-- read returns the state of a quota; nil when there is none that can be read.
local function read(text)
  local epoch, level, seen, rules, learn, events, n, total, saved, poor, rest =
    string.match(text, '^(%S+) (%S+) (%S+) (%S+ %S+ %S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)(.*)$')
  if not epoch then
    return nil
  end
  local rate, burst, version = string.match(rules, '(%S+) (%S+) (%S+)')
  local s = {
    epoch = epoch, level = tonumber(level), seen = tonumber(seen), rules = rules, rate = tonumber(rate), burst = tonumber(burst),
    version = tonumber(version), learn = tonumber(learn), events = tonumber(events), n = tonumber(n), total = tonumber(total),
    saved = tonumber(saved), poor = tonumber(poor), classes = {},
  }
  if not (s.level and s.seen and s.rate and s.burst and s.version and s.learn and s.events and s.n and s.total and s.saved and s.poor) then
    return nil
  end
  if not (math.abs(s.level) < 1e18 and s.rate > 0 and s.rate < 1e18 and s.burst >= 0 and s.burst < 1e18 and math.abs(s.total) < 1e18) then
    return nil
  end
  if rest == '' then
    return s
  end
  for i, c, sum in string.gmatch(rest, '(%-?%d+):(%d+):(%S+)') do
    local class = { tonumber(c), tonumber(sum) }
    if not class[2] or class[1] < 1 then
      return nil
    end
    s.classes[tonumber(i)] = class
  end
  return s
end

-- settle does one quota, and returns what the caller is told.
local function settle(k, at)
  local key, events, mine = KEYS[k], KEYS[k + 1], 'g:' .. id
  local spent, demand, believed = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local rules = ARGV[at + 4] .. ' ' .. ARGV[at + 5] .. ' ' .. ARGV[at + 6]
  local knows, rate, burst, version = ARGV[at + 3], tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local piece = tonumber(ARGV[at + 7])
  local got = redis.call('HMGET', key, 'q', mine)
  local s = got[1] and read(got[1])
  local own = got[2] and row(got[2])
  if got[1] and not s then
    redis.call('DEL', key, events) -- it cannot be read: the quota begins anew
    own = nil
  end

  local expire = false
  if not s then
    s = { epoch = string.format('%.0f', now), level = 0, seen = now, rules = rules, rate = rate, burst = burst, version = version,
      learn = now + 1.5 * T, events = now, n = 0, total = 0, saved = 0, poor = 0, classes = {} }
    if now - resumed > 1000 * math.max(KEY_KEPT, 1000 * burst / rate + 2 * E / 1000) then
      s.level, s.learn = burst, 0 -- nobody has used it for so long: it is full, and not lost
    end
    expire = true
  else
    local flows = s.rate -- until now
    if s.version < version then
      s.rules, s.rate, s.burst, s.version, expire = rules, rate, burst, version, true
    end
    if s.seen < resumed or now < s.seen - 1000000 then
      -- Nobody knows what was spent meanwhile: nothing is minted, and what the
      -- gates believe holds until they have all been heard of.
      redis.call('DEL', key, events)
      s.level, s.learn = math.min(s.level, 0), now + 1.5 * T
      s.n, s.total, s.saved, s.poor, s.classes = 0, 0, 0, 0, {}
      own, expire = nil, true
    else
      s.level = s.level + flows * held * math.max(now - s.seen, 0) / 1000000
      expire = expire or math.floor(now / 10000000) ~= math.floor(s.seen / 10000000)
    end
  end
  rate, burst = s.rate, s.burst
  local floor = math.max(1.5 * rate * T / 1000000, live + 1)

  -- Other gates whose time has come: who is silent is presumed to spend its share
  -- until its lease ends.
  local due = {}
  if now >= s.events then
    due = redis.call('ZRANGEBYSCORE', events, '-inf', stamp, 'LIMIT', 0, EVENTS)
    s.events = #due < EVENTS and now + T / 4 or now
  end
  for i = 1, #due do
    if due[i] ~= id then
      local text = redis.call('HGET', key, 'g:' .. due[i])
      local r = text and row(text)
      if not r or r.mode == 2 then
        redis.call('HDEL', key, 'g:' .. due[i])
        redis.call('ZREM', events, due[i])
      else
        local next_at = r.ends
        if r.mode == 1 and r.out_at < r.ends then
          local upto = math.min(now + T, r.ends)
          local more = r.share * math.max(upto - r.out_at, 0) / 1000000
          s.level, r.presumed, r.out_at = s.level - more, r.presumed + more, upto
          next_at = upto
        end
        if r.ends <= now then
          count(s, r, -1)
          r.mode, next_at = 2, now + ROW_KEPT
        end
        redis.call('HSET', key, 'g:' .. due[i], words(r))
        redis.call('ZADD', events, string.format('%.0f', next_at), due[i])
      end
    end
  end

  -- The caller: what it was granted and did not spend comes back.
  if own then
    if own.mode ~= 2 then
      count(s, own, -1)
    end
    if knows == s.epoch then
      local back = own.grant + own.presumed - math.max(spent - own.before, 0)
      if own.mode == 2 and keepback then
        back = math.max(back, 0) -- what it spent without a lease was kept back for it
      end
      s.level = s.level + back
    end
  elseif knows == '' then
    s.level = s.level - spent -- it has just come, and what it spent before is owed
  end
  local horizon = G / 1000000
  local depth = math.max(burst * held, rate * horizon, piece) -- what flows in between two calls has room
  s.level = math.min(math.max(s.level, -floor), depth)

  local n = s.n + 1
  if demand < 0 then
    demand = rate / math.max(n, known) / 1.05
  end
  local wanted = demand == 0 and '0' or string.format('%.6f', 1.05 * demand)
  local want = tonumber(wanted)
  local total = s.total + want

  local share, lack, grant, atonce, wait, save = 0, 1 / n, 0, 1, 0, 0
  if leaving then
    if own then
      redis.call('HDEL', key, mine)
      redis.call('ZREM', events, id)
    end
  else
    if now < s.learn then
      share = believed
      if share <= 0 then
        share = rate / math.max(n, known)
      end
      share = math.min(share, rate)
    else
      share, lack = fair(rate * held, s, want)
    end
    local stock = s.level - s.saved
    if demand == 0 and stock >= piece and now >= s.learn then
      -- Asleep: something in hand for the first requests to come.
      grant = math.max(piece, math.min(stock / (2 * n), burst))
    elseif now >= s.learn and burst >= rate * horizon and stock >= total * horizon and stock >= piece then
      -- There is more than all want.
      grant = math.min(stock, math.max(want * horizon, stock / (2 * n), piece))
    elseif share * horizon < 4 * piece then
      -- Too few to flow: whole requests' tokens, to who comes first.
      if s.level >= piece then
        grant = math.max(piece, math.min(s.level / 2, math.max(want * horizon, s.level / n)))
        grant = piece * math.floor(grant / piece)
      else
        save = piece
        wait = math.max((piece - s.level) / (rate * held), 0.001) * (s.poor + 1) * 1000000
      end
    else
      atonce = 0
      grant = share * horizon + math.max(stock, 0) * lack / 3
      grant = math.max(math.min(grant, s.level + floor), 0)
    end
    s.level = s.level - grant
    own = { want = want, save = save > 0 and tonumber(string.format('%.6f', save)) or 0 }
    expire = expire or s.n == 0
    count(s, own, 1)
  end
  local text = string.format('%s %.6f %s %s %.0f %.0f %d %.6f %.6g %d', s.epoch, s.level, stamp, s.rules, s.learn, s.events, s.n, s.total,
    s.saved, s.poor)
  for i, class in pairs(s.classes) do
    text = text .. string.format(' %d:%d:%.6f', i, class[1], class[2])
  end
  if leaving then
    redis.call('HSET', key, 'q', text)
  else
    redis.call('HSET', key, 'q', text, mine, string.format('%.6f %.6f %s 0 %s %s %s %d %.6f', share, grant, runs_out, ARGV[at], wanted, ends,
      1 - atonce, own.save))
    redis.call('ZADD', events, atonce == 0 and runs_out or ends, id)
  end
  if expire then
    local ms = math.max(KEY_KEPT, math.ceil(1000 * burst / rate + 2 * E / 1000))
    redis.call('PEXPIRE', key, ms)
    redis.call('PEXPIRE', events, ms)
  end
  return string.format('%.6f %d %.6f %s %.0f %s %.3f %d', grant, atonce, share, s.epoch, wait, s.rules, s.level, n)
end

local at = 12
for k = 3, #KEYS, 2 do
  local ok, told = pcall(settle, k, at)
  if not ok then
    told = '!' .. (type(told) == 'table' and tostring(told.err) or tostring(told))
  end
  out[#out + 1] = told
  at = at + 8
end
return out
