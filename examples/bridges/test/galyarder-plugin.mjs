// The plugin as it was built, over the server's helpers: those of `GALYARDER_ADAPTER_UTILS`, else what stands for them here.
process.env.GALYARDER_ADAPTER_UTILS ??= new URL("adapter-utils", import.meta.url).pathname;

export const plugin = await import("../galyarder/dist/server.js");
export const { runningProcesses } = await import("../galyarder/dist/server-utils.js");
