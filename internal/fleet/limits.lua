-- One call of one gate for the limits that it shares: a notice board. It puts the
-- gate's row up, takes down those of gates that are silent, and says who leads.
-- All arithmetic is the gates' (package pool).
--
-- KEYS: one hash per limit.
-- ARGV: id, how long a row stands (microseconds); then per limit: the row, "" =
-- the gate leaves; the verdict, "fence limit base", "" = none.
-- Returns per limit lines: "leads fence turn", the verdict, "id row" of each gate; or
-- "!" and an error.
local id, life = ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

local most = math.max(10 * life, 60000000) -- a row that ends later was put up before the clock was set back

local function exchange(k)
  local row, verdict = ARGV[1 + 2 * k], ARGV[2 + 2 * k]
  local flat = redis.call('HGETALL', KEYS[k])
  local lines, leader, fence, till, stands = {}, '', 0, 0, '0 0 0'
  for i = 1, #flat, 2 do
    local field, value = flat[i], flat[i + 1]
    if field == 'lead' then
      local f, u
      leader, f, u = string.match(value, '^(%S+) (%S+) (%S+)')
      leader, fence, till = leader or '', tonumber(f) or 0, tonumber(u) or 0
    elseif field == 'verdict' then
      stands = string.match(value, '^%d+ %d+ %d+$') or stands
    elseif field ~= 'g:' .. id then
      local ends, rest = string.match(value, '^(%S+) (.*)$')
      ends = tonumber(ends)
      if ends and ends > now and ends <= now + most then
        lines[#lines + 1] = string.sub(field, 3) .. ' ' .. rest
      else
        redis.call('HDEL', KEYS[k], field)
      end
    end
  end
  local leads = 0
  if row == '' then
    redis.call('HDEL', KEYS[k], 'g:' .. id)
    if leader == id then
      redis.call('HDEL', KEYS[k], 'lead')
      redis.call('HSET', KEYS[k], 'lead', string.format('- %.0f 0', fence))
    end
  else
    lines[#lines + 1] = id .. ' ' .. row
    redis.call('HSET', KEYS[k], 'g:' .. id, string.format('%.0f %s', now + life, row))
    if leader ~= id and (till <= now or till > now + most) then
      leader, fence = id, fence + 1
    end
    if leader == id then
      leads = 1
      redis.call('HSET', KEYS[k], 'lead', string.format('%s %.0f %.0f', id, fence, now + life))
      if verdict ~= '' and tonumber(string.match(verdict, '^(%S+)')) == fence then
        stands = verdict
        redis.call('HSET', KEYS[k], 'verdict', verdict)
      end
    end
  end
  redis.call('PEXPIRE', KEYS[k], 60000)
  table.sort(lines)
  return string.format('%d %.0f %.0f', leads, fence, math.floor(now / life)) .. '\n' .. stands .. '\n' .. table.concat(lines, '\n')
end

local out = {}
for k = 1, #KEYS do
  local ok, told = pcall(exchange, k)
  if not ok then
    told = '!' .. (type(told) == 'table' and tostring(told.err) or tostring(told))
  end
  out[k] = told
end
return out
