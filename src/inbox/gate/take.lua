-- Counts a request, as `inbox/limit/gcra.rs` does it, by this server's clock. All of it or nothing.
--
-- KEYS: the source, its network, the form.
-- ARGV: whether to charge ("1") or only to look ("0"); then the quotas of each key in turn, over a minute and over an hour.
-- Answers with whether it is allowed, whether the form is past its quota, and four debts in ticks: the source's and the network's.
local WINDOWS = { 60000000, 3600000000 }
local TICKS = 16777216

local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local stored = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local step, most, now, debt, fits = {}, {}, {}, {}, { true, true, true }
for key = 1, 3 do
    local value = stored[key]
    local known = value and #value == 16
    local first, second
    if known then
        first, second = struct.unpack('<dd', value)
    end
    for window = 1, 2 do
        local at = key * 2 - 2 + window
        local quota = tonumber(ARGV[at + 1])
        local length = WINDOWS[window]
        step[at] = floor(TICKS / quota)
        most[at] = step[at] * quota
        -- In whole windows and what is left of one, so that it is exact.
        local windows = floor(micros / length)
        now[at] = windows * most[at] + floor((micros - windows * length) * most[at] / length)
        local ahead = known and (window == 1 and first or second) - now[at] or 0
        -- A clock that was put back a little leaves nobody with less than a full debt; one that was put back far, with none.
        if ahead < 0 or ahead > 2 * most[at] then
            ahead = 0
        end
        debt[at] = min(ahead, most[at])
        if debt[at] > most[at] - step[at] then
            fits[key] = false
        end
    end
end

local allowed = fits[1] and fits[2]
if allowed and ARGV[1] == '1' then
    for key = 1, 3 do
        if fits[key] then
            local a, b = key * 2 - 1, key * 2
            debt[a], debt[b] = debt[a] + step[a], debt[b] + step[b]
            -- What is owed no longer is forgotten.
            local rest = max(debt[a] / most[a] * 60000, debt[b] / most[b] * 3600000)
            redis.call('SET', KEYS[key], struct.pack('<dd', now[a] + debt[a], now[b] + debt[b]), 'PX', ceil(rest) + 1)
        end
    end
end
return { allowed and 1 or 0, fits[3] and 0 or 1, debt[1], debt[2], debt[3], debt[4] }
