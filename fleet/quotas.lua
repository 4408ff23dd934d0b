-- One call of one gate for all its quotas of a group. It settles what the gate
-- has spent, shares the rates out by demand and grants tokens. What the words
-- mean is written in docs/fleet.md.
--
-- KEYS: the group, then one hash per quota.
-- ARGV: id, name, T, G, E (microseconds), expected gates, leaving (0 or 1); then
-- per quota: spent, demand (-1 = unknown), share, epoch, rate, burst, version,
-- piece: the most that one request was seen to cost.
-- Returns: "now gates id=name id=name ...", then per quota
-- "grant atonce share epoch wait rate burst level gates".
local id, name = ARGV[1], ARGV[2]
local T, G, E = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local expected, leaving = tonumber(ARGV[6]), ARGV[7] == '1'

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- The group: who is there, and since when it has been heard of without a gap.
local group = redis.call('HGETALL', KEYS[1])
local last, resumed, gates = 0, now, 0
local gone, others = {}, {}
for i = 1, #group, 2 do
  local field, value = group[i], group[i + 1]
  if field == 'last' then
    last = tonumber(value)
  elseif field == 'resumed' then
    resumed = tonumber(value)
  elseif string.sub(field, 1, 2) == 'g:' then
    local ends = tonumber(string.match(value, '^(%S+)'))
    if ends < now - 60000000 or ends > now + 10 * E then
      gone[#gone + 1] = field
    elseif ends > now and field ~= 'g:' .. id then
      gates = gates + 1
      others[gates] = string.sub(field, 3) .. '=' .. string.match(value, '(%S+)$')
    end
  end
end
if now > last + E or now < last - 1000000 then
  resumed = now
end
now = math.max(now, math.min(last, now + 1000000))
if #gone > 0 then
  redis.call('HDEL', KEYS[1], unpack(gone))
end
if leaving then
  redis.call('HDEL', KEYS[1], 'g:' .. id)
  redis.call('HSET', KEYS[1], 'last', string.format('%.0f', now), 'resumed', string.format('%.0f', resumed))
else
  gates = gates + 1
  others[gates] = id .. '=' .. name
  redis.call('HSET', KEYS[1], 'last', string.format('%.0f', now), 'resumed', string.format('%.0f', resumed),
    'g:' .. id, string.format('%.0f %s', now + T + E, name))
end
redis.call('PEXPIRE', KEYS[1], math.max(60000, math.ceil(E / 500)))

local out = { string.format('%.0f %d ', now, gates) .. table.concat(others, ' ') }

-- A gate's row: share, grant, when it has run out, presumed, spent, demand, end
-- of the lease, 1 = trickled, tokens it saves for.
local row = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)'
local head = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)'

-- fair shares a rate out: everybody gets what he wants, or the same as all who
-- want more; what is left goes to all alike. It returns the caller's share, and
-- which part of what all lack he lacks.
local function fair(rate, wants, mine)
  local sorted = {}
  for i = 1, #wants do
    sorted[i] = wants[i]
  end
  table.sort(sorted)
  local left, n = rate, #sorted
  for i = 1, #sorted do
    local even = left / n
    if sorted[i] > even then
      local lack = 0
      for j = i, #sorted do
        lack = lack + sorted[j] - even
      end
      return math.min(mine, even), math.max(mine - even, 0) / lack
    end
    left = left - sorted[i]
    n = n - 1
  end
  return mine + left / #sorted, 1 / #sorted
end

for k = 2, #KEYS do
  local at = 8 + (k - 2) * 8
  local spent, demand, believed = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local known, rate, burst, version = ARGV[at + 3], tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local piece = tonumber(ARGV[at + 7])
  local flat = redis.call('HGETALL', KEYS[k])
  local rows, mine, q = {}, nil, nil
  for i = 1, #flat, 2 do
    if flat[i] == 'q' then
      q = flat[i + 1]
    elseif flat[i] == 'g:' .. id then
      mine = flat[i + 1]
    else
      rows[#rows + 1] = flat[i]
      rows[#rows + 1] = flat[i + 1]
    end
  end

  local epoch, level, seen, learn, drop = '', 0, now, 0, {}
  local keep = math.ceil(math.max(60000, 1000 * burst / rate + 2 * E / 1000)) -- milliseconds
  local fresh = q == nil
  if not fresh then
    local r, b, v, l, s, u
    epoch, l, s, r, b, v, u = string.match(q, head)
    level, seen, learn = tonumber(l), tonumber(s), tonumber(u)
    if tonumber(v) >= version then
      rate, burst, version = tonumber(r), tonumber(b), tonumber(v)
    end
    if seen < resumed or now < seen - 1000000 then
      -- Nobody knows what was spent meanwhile: nothing is minted, and what the
      -- gates believe holds until they have all been heard of.
      level, learn = math.min(level, 0), now + 1.5 * T
      for i = 1, #rows, 2 do
        drop[#drop + 1] = rows[i]
      end
      rows, mine = {}, nil
    else
      level = level + rate * math.max(now - seen, 0) / 1000000
    end
  else
    epoch, level, learn = string.format('%.0f', now), 0, now + 1.5 * T
    if now - resumed > 1000 * keep then
      level, learn = burst, 0 -- nobody has used it for so long: it is full, and not lost
    end
  end
  local floor = math.max(1.5 * rate * T / 1000000, gates + 1)

  -- The others: who is silent is presumed to spend its share until its lease ends.
  local wants, total, saved, poor = {}, 0, 0, 0
  for i = 1, #rows, 2 do
    local share, grant, out_at, presumed, before, asked, ends, trickled, save = string.match(rows[i + 1], row)
    ends, out_at = tonumber(ends), tonumber(out_at)
    if trickled == '1' and out_at < now and out_at < ends then
      local upto = math.min(now, ends)
      local more = tonumber(share) * (upto - out_at) / 1000000
      level = level - more
      redis.call('HSET', KEYS[k], rows[i], string.format('%s %s %.0f %.6f %s %s %.0f 1 0', share, grant, upto,
        tonumber(presumed) + more, before, asked, ends))
    end
    if ends < now - 60000000 then
      drop[#drop + 1] = rows[i]
    elseif ends > now then
      local want = 1.05 * tonumber(asked)
      wants[#wants + 1] = want
      total = total + want
      if save ~= '0' then
        saved, poor = saved + tonumber(save), poor + 1
      end
    end
  end

  -- The caller: what it was granted and did not spend comes back.
  if mine then
    local _, grant, _, presumed, before = string.match(mine, row)
    if known == epoch then
      level = level + tonumber(grant) + tonumber(presumed) - math.max(spent - tonumber(before), 0)
    end
  elseif known == '' then
    level = level - spent -- it has just come, and what it spent before is owed
  end
  local horizon = G / 1000000
  local depth = math.max(burst, rate * horizon) -- what flows in between two calls has room
  level = math.min(math.max(level, -floor), depth)

  local n = #wants + 1
  if demand < 0 then
    demand = rate / math.max(n, expected) / 1.05
  end
  local want = 1.05 * demand
  wants[n] = want
  total = total + want

  local share, lack, grant, atonce, wait, save = 0, 1 / n, 0, 1, 0, 0
  if leaving then
    drop[#drop + 1] = 'g:' .. id
  else
    if now < learn then
      share = believed
      if share <= 0 then
        share = rate / math.max(n, gates, expected)
      end
      share = math.min(share, rate)
    else
      share, lack = fair(rate, wants, want)
    end
    local stock = level - saved
    if demand == 0 and stock >= piece and now >= learn then
      -- Asleep: something in hand for the first requests to come.
      grant = math.max(piece, math.min(stock / (2 * n), burst))
    elseif now >= learn and burst >= rate * horizon and stock >= total * horizon and stock >= piece then
      -- There is more than all want.
      grant = math.min(stock, math.max(want * horizon, stock / (2 * n), piece))
    elseif share * horizon < 4 * piece then
      -- Too few to flow: whole requests' tokens, to who comes first.
      if level >= piece then
        grant = math.max(piece, math.min(level / 2, math.max(want * horizon, level / n)))
        grant = piece * math.floor(grant / piece)
      else
        save = piece
        wait = math.max((piece - level) / rate, 0.001) * (poor + 1) * 1000000
      end
    else
      atonce = 0
      grant = share * horizon + math.max(stock, 0) * lack / 3
      grant = math.max(math.min(grant, level + floor), 0)
    end
    level = level - grant
    redis.call('HSET', KEYS[k], 'g:' .. id, string.format('%.6f %.6f %.0f 0 %.6f %.6f %.0f %d %.6g', share, grant, now + G,
      spent, demand, now + T + E, 1 - atonce, save))
  end
  redis.call('HSET', KEYS[k], 'q', string.format('%s %.6f %.0f %.17g %.17g %.0f %.0f', epoch, level, now, rate, burst, version, learn))
  if #drop > 0 then
    redis.call('HDEL', KEYS[k], unpack(drop))
  end
  redis.call('PEXPIRE', KEYS[k], keep)
  out[#out + 1] = string.format('%.6f %d %.6f %s %.0f %.17g %.17g %.6f %d', grant, atonce, share, epoch, wait, rate, burst, level, n)
end
return out
