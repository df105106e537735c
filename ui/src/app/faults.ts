// What breaks inside the window goes to the app's log: a view that fails must not fail in silence.
const TOLD_MAX = 20; // a fault in a loop must not flood the log

export function tellFaults(tell: (message: string) => void): void {
  let told = 0;
  const once = (message: string) => {
    if (told++ < TOLD_MAX) tell(message.slice(0, 2000));
  };
  window.addEventListener("error", (event) => once(`${event.message} at ${event.filename}:${event.lineno}`));
  window.addEventListener("unhandledrejection", (event) => {
    const reason: unknown = event.reason;
    const text = typeof reason === "object" && reason !== null && "message" in reason ? String(reason.message) : String(reason);
    once(`unhandled: ${text}`);
  });
}
