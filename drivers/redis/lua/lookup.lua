-- A record begins with a mark and its meta (created_at, expiry, version), at the offsets in
-- record.go. A string without the mark was written by another program.

-- found returns the record's meta, or nil. For another program's record it also returns the value. Of a header
-- without its last space it returns less: that is no meta, and is refused.
local function found()
  local head = redis.call('GETRANGE', KEYS[1], 0, 53)
  if string.sub(head, 1, 5) == '\0sl1 ' then
    return string.sub(head, 6, string.sub(head, 54) == ' ' and 53 or 52)
  end
  local value = redis.call('GET', KEYS[1])
  if not value then
    return nil
  end
  local expiry = math.min(math.max(redis.call('PEXPIRETIME', KEYS[1]), 0), 999999999999999)
  local version = string.sub(redis.sha1hex(value), 1, 16)
  return string.format('%015.0f %015.0f %s', 0, expiry, version), value
end

-- server returns the server's time, and now the later of that and the caller's.
local time
local function server()
  if not time then
    local t = redis.call('TIME')
    time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return time
end

local function now()
  return math.max(ARGV[1], server())
end

-- life returns created_at and the expiry of a meta, or nil if it has another form, which is refused.
local function life(meta)
  local created, expiry = string.match(meta, '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d) (%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d) [%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f][%da-f]$')
  if string.sub(meta, 33) ~= '0000000000000000' then
    return created, expiry
  end
end

-- dead reports whether a record has expired. The server still holds such a record only if it is
-- retained.
local function dead(meta)
  local _, expiry = life(meta)
  return expiry and tonumber(expiry) ~= 0 and tonumber(expiry) <= now()
end

-- apart returns the server's time, in a table, if an expiry has passed by that and not by another
-- time, or the reverse; else nil. A meta is returned as a string, whatever it holds.
local function apart(expiry, by)
  if (expiry <= by) ~= (expiry <= server()) then
    return {string.format('%015.0f', server())}
  end
end

-- late returns what apart does if a new life has ended by the server's time, or nil. Another clock
-- may write any life.
local function late(record)
  local expiry = tonumber(string.sub(record, 22, 36))
  return ARGV[1] == '0' and expiry ~= 0 and apart(expiry, 0)
end

-- written returns the answer of a script that has written a record over a dead one, empty for none.
local function written(record, replaced)
  return string.sub(record, 6, 53) .. string.format('%015.0f', server()) .. replaced
end


