// The one toast: what just happened, with its undo. Errors never come this way.
export interface ToastText {
  text: string;
  undo?: () => void;
}

class Toaster {
  shown: ToastText | undefined = $state.raw();

  show(text: string, undo?: () => void): void {
    this.shown = undo ? { text, undo } : { text };
  }
  clear(): void {
    this.shown = undefined;
  }
}

export const toaster = new Toaster();
