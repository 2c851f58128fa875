"""What Redis does in one piece for a store: Lua, a script for each operation.

Run by `redis_store`. A value is a list of one element, so that Redis itself wakes whoever waits for
it (BLMOVE from a list to itself). Each script begins with the fence: an attempt that is over writes
nothing, and the first word of a later one drops what the earlier one left.

KEYS are the fence, the attempt's index of keys, and the keys that the operation is about. ARGV are
the attempt, how long keys are kept in milliseconds, the prefix of all, and the operation's own.
"""

_FENCE = """
local fence, index, key = KEYS[1], KEYS[2], KEYS[3]
local mine, kept_ms, prefix = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local newest = tonumber(redis.call('GET', fence) or '0')
if mine < newest then return redis.error_reply('OVER ' .. newest) end
if mine > newest then
    local left = prefix .. string.format('%d', newest) .. ':index'
    for _, each in ipairs(redis.call('SMEMBERS', left)) do redis.call('UNLINK', each) end
    redis.call('UNLINK', left)
    redis.call('SET', fence, ARGV[1])
end
redis.call('PEXPIRE', fence, kept_ms)
local function keep(of)
    redis.call('SADD', index, of)
    redis.call('PEXPIRE', of, kept_ms)
    redis.call('PEXPIRE', index, kept_ms)
end
local function value(of) return redis.call('LINDEX', of, 0) end
local function replace(of, what)
    if redis.call('EXISTS', of) == 1 then redis.call('LSET', of, 0, what)
    else redis.call('RPUSH', of, what) end
    keep(of)
end
local function siblings(of) return string.match(of, '^(.*/)(%d+)$') end
local function table_of(family, size) return family .. '#table-' .. string.format('%d', size) end
local function tell_all(family, size)
    if redis.call('SCARD', family .. '#came') < size then return end
    local told = {}
    for member = 0, size - 1 do
        local found = value(family .. string.format('%d', member))
        if not found then return end
        told[member + 1] = struct.pack('>I4', #found) .. found
    end
    replace(table_of(family, size), table.concat(told))
end
local function changed(family, member)
    for _, size in ipairs(redis.call('SMEMBERS', family .. '#wanted')) do
        if tonumber(member) < tonumber(size) then
            redis.call('UNLINK', table_of(family, size))
            tell_all(family, tonumber(size))
        end
    end
end
local function put(of, what)
    replace(of, what)
    local family, member = siblings(of)
    if not family then return end
    redis.call('SADD', family .. '#came', member)
    keep(family .. '#came')
    changed(family, member)
end
"""
"""Keys that end in /0, /1, … are a family: who wants it whole is told in one piece, which is made
once, by the last that comes, however many wait for it."""

_ONCE = """
local done = prefix .. 'done:' .. ARGV[4]
local before = redis.call('GET', done)
if before then return tonumber(before) end
local function once(result)
    redis.call('SET', done, result, 'PX', 600000)
    return result
end
"""
"""For what must not be done twice where the first answer was lost with its connection."""

SET = f"""{_FENCE}
for at = 3, #KEYS do put(KEYS[at], ARGV[at + 1]) end
return 1
"""

WANT = f"""{_FENCE}
redis.call('SADD', key .. '#wanted', ARGV[4])
keep(key .. '#wanted')
if redis.call('EXISTS', table_of(key, ARGV[4])) == 0 then tell_all(key, tonumber(ARGV[4])) end
return 1
"""
"""The first so many of a family are wanted in one piece: now, or by the set that makes them all."""

ADD = f"""{_FENCE}{_ONCE}
local had = tonumber(value(key) or '0')
if not had then return redis.error_reply('NONUMBER') end
local sum = string.format('%d', had + tonumber(ARGV[5]))
put(key, sum)
return tonumber(once(sum))
"""

APPEND = f"""{_FENCE}{_ONCE}
put(key, (value(key) or '') .. ARGV[5])
return once(1)
"""

COMPARE_SET = f"""{_FENCE}
local found = value(key)
if (found or '') == ARGV[4] then
    put(key, ARGV[5])
    return ARGV[5]
end
return found or ARGV[4]
"""
"""A key that is not there is made where nothing was expected, as TCPStore does. A second time it
finds what it wrote, and answers the same."""

BORN = f"""{_FENCE}
if not value(key) then replace(key, ARGV[4]) end
return value(key)
"""
"""What the first store of an attempt leaves, and all others find: one that is another tells that
Redis has begun anew."""

CHECK = f"""{_FENCE}
local missing = {{}}
for at = 3, #KEYS do
    if redis.call('EXISTS', KEYS[at]) == 0 then missing[#missing + 1] = KEYS[at] end
end
return missing
"""

DELETE = f"""{_FENCE}{_ONCE}
local gone = redis.call('DEL', key)
local family, member = siblings(key)
if family then
    redis.call('SREM', family .. '#came', member)
    changed(family, member)
end
redis.call('SREM', index, key)
return once(gone)
"""

KEYS = f"""{_FENCE}
local found = {{}}
for _, each in ipairs(redis.call('SMEMBERS', index)) do
    local ours = each:find('#table-', 1, true) or each:find('#born', 1, true)
    if redis.call('TYPE', each).ok == 'list' and not ours then found[#found + 1] = each end
end
return found
"""
