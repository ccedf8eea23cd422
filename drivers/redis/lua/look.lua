-- Returns the string; one of another program with its expiry, below 0 for none.
local record = redis.call('GET', KEYS[1])
if not record or string.sub(record, 1, 5) == '\0sl1 ' then
  return record
end
return {record, redis.call('PEXPIRETIME', KEYS[1])}
