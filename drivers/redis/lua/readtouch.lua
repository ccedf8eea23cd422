-- Returns what look.lua does, and a record that it has touched with the expiry written.
-- ARGV: the caller's time; of the access: when it is, what it keeps, stores and allows at
-- most; 1 for promote.
local record = redis.call('GET', KEYS[1])
if not record then
  return record
elseif string.sub(record, 1, 5) ~= '\0sl1 ' then
  return {record, redis.call('PEXPIRETIME', KEYS[1])}
end
local created, expiry = tonumber(string.sub(record, 6, 20)), tonumber(string.sub(record, 22, 36))
if not created or created == 0 or not expiry or expiry <= tonumber(ARGV[1]) then
  return record
end
local at, limit = tonumber(ARGV[2]), created + tonumber(ARGV[5])
if expiry >= math.min(at + tonumber(ARGV[3]), limit) then
  return record
end
local to = limit
if ARGV[6] ~= '1' then
  to = math.min(at + tonumber(ARGV[4]), limit)
end
local text = string.format('%015.0f', to)
if #text > 15 then
  return record
end
local written = redis.pcall('SETRANGE', KEYS[1], 21, text)
if type(written) ~= 'number' then
  return record -- no memory, or no primary any more: the read is good all the same
end
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', to))
return {record, text}
