-- Counts a request either against all quotas or against none. Uses the algorithm in `crates/limits/src/gcra.rs`, and
-- the clock of the Redis server.
--
-- KEYS: the source and its network.
-- ARGV: "1" to count the request, or "0" to only report; then each key's quotas per minute and per hour.
-- Returns whether the request is allowed, and four debts in ticks: the source's two, then the network's two.
local TICKS = 16777216
local floor, ceil, max = math.floor, math.ceil, math.max
local unpack, pack, call = struct.unpack, struct.pack, redis.call

local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
-- Split the time into whole windows and a remainder, which loses little precision in computations.
local minutes, hours = floor(micros / 60000000), floor(micros / 3600000000)
local of_minute = (micros - minutes * 60000000) / 60000000
local of_hour = (micros - hours * 3600000000) / 3600000000

-- The debt for a stored arrival time. A debt above the maximum means that the clock was set back. If it is
-- above by up to ten seconds, it counts as the maximum, so that the change does not reset quotas. Beyond
-- that, it counts as zero, so that the change does not lock sources out.
local function owed(until_then, now, most, ten_seconds)
    local debt = until_then - now
    if debt <= 0 or debt > most + ten_seconds then
        return 0
    end
    return debt < most and debt or most
end

-- Returns, for both windows of one key: ticks per request, largest debt, current tick and debt. The last
-- value says whether one more request is allowed. A missing or malformed value means no debt.
local function account(value, minute, hour)
    local step, step2 = floor(TICKS / minute), floor(TICKS / hour)
    local most, most2 = step * minute, step2 * hour
    local now, now2 = minutes * most + floor(of_minute * most), hours * most2 + floor(of_hour * most2)
    local debt, debt2 = 0, 0
    if value and #value == 16 then
        local first, second = unpack('<dd', value)
        debt, debt2 = owed(first, now, most, most / 6), owed(second, now2, most2, most2 / 360)
    end
    return step, most, now, debt, step2, most2, now2, debt2, debt <= most - step and debt2 <= most2 - step2
end

-- Stores arrival times until the debts have expired.
local function store(key, most, now, debt, most2, now2, debt2)
    local rest = max(debt / most * 60000, debt2 / most2 * 3600000)
    call('SET', key, pack('<dd', now + debt, now2 + debt2), 'PX', ceil(rest) + 1)
end

local value = call('MGET', KEYS[1], KEYS[2])
local s_step, s_most, s_now, s_debt, s_step2, s_most2, s_now2, s_debt2, s_fits = account(value[1], ARGV[2], ARGV[3])
local n_step, n_most, n_now, n_debt, n_step2, n_most2, n_now2, n_debt2, n_fits = account(value[2], ARGV[4], ARGV[5])

local allowed = s_fits and n_fits
if allowed and ARGV[1] == '1' then
    s_debt, s_debt2 = s_debt + s_step, s_debt2 + s_step2
    n_debt, n_debt2 = n_debt + n_step, n_debt2 + n_step2
    store(KEYS[1], s_most, s_now, s_debt, s_most2, s_now2, s_debt2)
    store(KEYS[2], n_most, n_now, n_debt, n_most2, n_now2, n_debt2)
end
return { allowed and 1 or 0, s_debt, s_debt2, n_debt, n_debt2 }
