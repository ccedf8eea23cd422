-- Returns the string. Another program's string comes with its expiry, negative for none, and at most
-- what a header can say.
local record = redis.call('GET', KEYS[1])
if not record or string.sub(record, 1, 5) == '\0sl1 ' then
  return record
end
return {record, math.min(redis.call('PEXPIRETIME', KEYS[1]), 999999999999999)}
