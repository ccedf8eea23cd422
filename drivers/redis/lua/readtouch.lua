-- Returns what look.lua does, and a record that it has touched with the expiry written.
-- ARGV: the caller's time; up to when the access keeps a record, and the expiry that it writes,
-- both as in a header, so that text compares as numbers do (converting costs more than all the
-- rest); how long a record lives at most; how long it is held once it has expired.
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
  return record -- no primary any more: the read is good all the same
end
if redis.call('SETRANGE', key, 21, to) < 54 then
  redis.call('DEL', key) -- as in touch.lua
end
return {record, to}
