// When what has the focus is taken away by its own act (a removed row, an answered question), the browser leaves the keyboard
// nowhere. It goes on at the neighbour of what went, or at the nearest control that is still there.
const CONTROLS = ":is(a[href], button, input, select, textarea, [tabindex='0']):not([tabindex='-1'], :disabled)";

interface Step {
  parent: HTMLElement;
  beside: Element | null;
}

export function keepFocus(root: HTMLElement): () => void {
  let way: Step[] = [];

  const remember = () => {
    way = [];
    for (let each = document.activeElement; each instanceof HTMLElement && each !== root && each.parentElement; each = each.parentElement) way.push({ parent: each.parentElement, beside: each.nextElementSibling ?? each.previousElementSibling });
  };
  const control = (within: Element | null): HTMLElement | null => (within?.isConnected ? (within.matches(CONTROLS) ? (within as HTMLElement) : within.querySelector<HTMLElement>(CONTROLS)) : null);
  const mend = () => {
    if (document.activeElement !== document.body || way.length === 0) return;
    for (const { parent, beside } of way) {
      const next = parent.isConnected ? (control(beside) ?? control(parent)) : null;
      if (next) return next.focus({ preventScroll: true });
    }
  };
  // A click beside all controls gives the focus up on purpose.
  const giveUp = () => {
    if (document.activeElement === document.body) way = [];
  };
  const observer = new MutationObserver(mend);
  observer.observe(root, { childList: true, subtree: true });
  root.addEventListener("focusin", remember);
  root.addEventListener("click", giveUp);
  return () => {
    observer.disconnect();
    root.removeEventListener("focusin", remember);
    root.removeEventListener("click", giveUp);
  };
}
