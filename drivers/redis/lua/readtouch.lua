-- Returns the string, or nil. If it touched the record, the new expiry follows; of another program's
-- string, its expiry, negative for none; if asked, what TIME returns follows too. ARGV: the caller's
-- time; how far the access keeps a record, and the expiry that it writes, both in the header's form;
-- the max lifetime; how long a record is held after its expiry; '1' to ask for the time. Texts of the
-- header's form compare as numbers do, and converting them would cost more than the rest of the
-- script.
local key, argv, sub = KEYS[1], ARGV, string.sub
local time, seconds, micros
if argv[6] ~= '' then
  time = redis.call('TIME')
  seconds, micros = time[1], time[2]
end
local record = redis.call('GET', key)
if not record then
  return {false, false, seconds, micros}
elseif sub(record, 1, 5) ~= '\0sl1 ' then
  return {record, math.min(redis.call('PEXPIRETIME', key), 999999999999999), seconds, micros}
end
local expiry = sub(record, 22, 36)
if expiry >= argv[2] or sub(record, 38, 53) == '0000000000000000' or not string.find(sub(record, 6, 54),
  '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d %d%d%d%d%d%d%d%d%d%d%d%d%d%d%d [%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f] $') then
  return {record, false, seconds, micros} -- not due, or no header, which is refused
end
time = time or redis.call('TIME')
if expiry + 0 <= math.max(argv[1], time[1] * 1000 + math.floor(time[2] / 1000)) then
  return {record, false, seconds, micros}
end
local to, limit = argv[3], sub(record, 6, 20) + argv[4]
if limit < to + 0 then
  to = string.format('%015.0f', limit)
  if expiry >= to then
    return {record, false, seconds, micros}
  end
end
if type(redis.pcall('PEXPIREAT', key, to + argv[5])) ~= 'number' then
  return {record, false, seconds, micros} -- no longer a primary: the read is still valid
end
if redis.call('SETRANGE', key, 21, to) < 54 then
  redis.call('DEL', key) -- as in touch.lua
end
return {record, to, seconds, micros}
