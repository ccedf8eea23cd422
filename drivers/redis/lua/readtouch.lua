-- Returns what read.lua does; a record that it touched comes with its new expiry. ARGV: the
-- caller's time; how far the access keeps a record, and the expiry that it writes, both in the
-- header's form; the max lifetime; how long a record is held after its expiry. Texts of the
-- header's form compare as numbers do, and converting them would cost more than the rest of the
-- script.
local key, argv, sub = KEYS[1], ARGV, string.sub
local record = redis.call('GET', key)
if not record then
  return record
elseif sub(record, 1, 5) ~= '\0sl1 ' then
  return {record, redis.call('PEXPIRETIME', key)}
end
local expiry = sub(record, 22, 36)
if expiry >= argv[2] then
  return record
end
local time = redis.call('TIME')
if expiry + 0 <= math.max(argv[1], time[1] * 1000 + math.floor(time[2] / 1000)) then
  return record
end
local to, limit = argv[3], sub(record, 6, 20) + argv[4]
if limit < to + 0 then
  to = string.format('%015.0f', limit)
  if expiry >= to then
    return record
  end
end
if type(redis.pcall('PEXPIREAT', key, to + argv[5])) ~= 'number' then
  return record -- no longer a primary: the read is still valid
end
if redis.call('SETRANGE', key, 21, to) < 54 then
  redis.call('DEL', key) -- as in touch.lua
end
return {record, to}
