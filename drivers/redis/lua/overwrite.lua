-- Returns what put.lua does. ARGV: as there, the caller's time; how far the access keeps a record, and the
-- expiry that it writes, both in the header's form; the max lifetime; the record with a new life;
-- how long a record is held after its expiry.
local meta = found()
local record, replaced = ARGV[5], meta or ''
if meta and not dead(meta) then
  local created, was = life(meta)
  if not created or tonumber(created) == 0 or tonumber(was) == 0 then
    return meta
  end
  local limit = created + ARGV[4]
  if limit > now() then
    local to = was
    if was < ARGV[2] then
      to = ARGV[3]
      if limit < tonumber(to) then
        to = string.format('%015.0f', limit)
      end
      if to < was then
        to = was
      end
    end
    replaced = ''
    record = string.sub(record, 1, 5) .. created .. ' ' .. to .. string.sub(record, 37)
  end
end
if record == ARGV[5] and late(record) then
  return late(record)
end
redis.call('SET', KEYS[1], record, 'PXAT', string.sub(record, 22, 36) + ARGV[6])
return written(record, replaced)
