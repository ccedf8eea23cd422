-- Returns the string. Another program's string comes with its expiry, negative for none.
local record = redis.call('GET', KEYS[1])
if not record or string.sub(record, 1, 5) == '\0sl1 ' then
  return record
end
return {record, redis.call('PEXPIRETIME', KEYS[1])}
