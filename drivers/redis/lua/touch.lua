-- ARGV: the caller's time; the meta of the record to touch; the meta to write; when
-- the record is deleted, 0 for never. No meta to write: the header is removed.
local meta, foreign = found()
if not meta or dead(meta) then
  return 0
elseif meta ~= ARGV[2] then
  return meta
end
if ARGV[3] == '' then
  foreign = foreign or redis.call('GETRANGE', KEYS[1], 54, -1)
  redis.call('SET', KEYS[1], foreign, 'KEEPTTL')
elseif foreign then
  redis.call('SET', KEYS[1], '\0sl1 ' .. ARGV[3] .. ' ' .. foreign, 'KEEPTTL')
end
-- Before the header: where memory is full a script's first write must need none, and the
-- others are then let through.
if ARGV[4] == '0' then
  redis.call('PERSIST', KEYS[1])
else
  redis.call('PEXPIREAT', KEYS[1], ARGV[4])
end
if not foreign and redis.call('SETRANGE', KEYS[1], 5, ARGV[3]) < 54 then
  redis.call('DEL', KEYS[1]) -- PEXPIREAT has deleted the record, for that time has come
end
return 1
