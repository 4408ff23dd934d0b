-- The rates of a group: what is in force, in the order in which the group was told.
-- Versions are given here, by a counter, and by no clock.
--
-- KEYS: the state of the group, the rates, their versions, the files of the gates.
-- ARGV: the gate's name, the version and the birth of the rates that it knows ('' =
-- none), the digest of the file that it started with ('' = it runs already), how
-- many milliseconds the rates are kept at least; then per change: field, how,
-- rate, burst, milliseconds until it ends (0 = never), version, rate of the file, by, source.
-- how is one of
--   start    the gate starts with a file that says so: taken when the file is
--            another one than this gate had before, and the rate another one than a
--            file said last; or when nothing is known of it
--   file     the gate has read a file that says so anew: taken
--   runtime  somebody told the gate so: taken
--   gone     an override is no more
--   restore  the gate knows of this version: taken when the group has an older one
--   drop     the override of this version is over, and all have heard so
-- Returns: now, version, birth, and "behind" when the gate knows more than the group
-- (nothing was done), else per field that changed since: the field and
-- "version rate burst file ends by source".
local name, knows, birth, digest, kept = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local MAX = 20000

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local state = redis.call('HMGET', KEYS[1], 'version', 'born')
local version, born = tonumber(state[1]), state[2]
if not version or not born then
  born = string.format('%.0f', now)
  local newest = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  version = tonumber(newest[2]) or 0
end
if birth ~= '' and (birth ~= born or knows > version) then
  return { string.format('%.0f', now), string.format('%.0f', version), born, 'behind' }
end

local another = false
if digest ~= '' then
  another = redis.call('HGET', KEYS[4], name) ~= digest
  if another then
    if redis.call('HLEN', KEYS[4]) >= 4096 then
      redis.call('DEL', KEYS[4])
    end
    redis.call('HSET', KEYS[4], name, digest)
  end
end

local function put(field, v, rate, burst, file, ends, by, source)
  redis.call('HSET', KEYS[2], field, string.format('%.0f %s %s %s %.0f %s %s', v, rate, burst, file, ends, by, source))
  redis.call('ZADD', KEYS[3], string.format('%.0f', v), field)
  kept = math.max(kept, (ends - now) / 1000)
end

for i = 6, #ARGV, 9 do
  local field, how, rate, burst, ms, v = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  local value, ends = rate .. '/' .. burst, 0
  if ms > 0 then
    ends = now + 1000 * ms
  end
  local old = redis.call('HGET', KEYS[2], field)
  local was, oldrate, oldburst, file, oldends, by, source
  if old then
    was, oldrate, oldburst, file, oldends, by, source = string.match(old, '^(%d+) (%S+) (%S+) (%S+) (%d+) (%S+) (%S+)$')
  elseif how ~= 'drop' and redis.call('HLEN', KEYS[2]) >= MAX then
    return redis.error_reply('ERR the group has ' .. MAX .. ' rates')
  end
  was = tonumber(was)
  if how == 'restore' then
    if not was or v > was then
      put(field, v, rate, burst, ARGV[i + 6], ends, ARGV[i + 7], ARGV[i + 8])
    end
    version = math.max(version, v)
  elseif how == 'drop' then
    if was == v then
      redis.call('HDEL', KEYS[2], field)
      redis.call('ZREM', KEYS[3], field)
    end
  elseif how == 'gone' then
    if was and source ~= 'gone' then
      version = version + 1
      put(field, version, oldrate, oldburst, file, 0, name, 'gone')
    end
  elseif how == 'runtime' then
    version = version + 1
    put(field, version, rate, burst, file or '-', ends, name, 'runtime')
  elseif not was or file ~= value and (how == 'file' or another) or how == 'file' and oldrate .. '/' .. oldburst ~= value then
    version = version + 1
    put(field, version, rate, burst, value, 0, name, 'file')
  end
end

redis.call('HSET', KEYS[1], 'version', string.format('%.0f', version), 'born', born)
local out = { string.format('%.0f', now), string.format('%.0f', version), born }
local changed = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. string.format('%.0f', knows), '+inf')
for i = 1, #changed do
  local text = redis.call('HGET', KEYS[2], changed[i])
  if text then
    out[#out + 1] = changed[i]
    out[#out + 1] = text
    local ends = tonumber(string.match(text, '^%S+ %S+ %S+ %S+ (%d+)')) or 0
    kept = math.max(kept, (ends - now) / 1000)
  end
end
for k = 2, 4 do
  if redis.call('PTTL', KEYS[k]) < kept then
    redis.call('PEXPIRE', KEYS[k], math.ceil(kept))
  end
end
return out
