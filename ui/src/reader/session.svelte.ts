// Whether this browser is signed in. The cookie itself is out of any script's reach; the queue says whether it stands.
import type { OwnerHome } from "../generated/owner";
import type { ErrorView } from "../generated/types";
import { asErrorView } from "../platform";
import { queue, whenSignedOut } from "../platform/web";

export type SignedIn = { at: "asking"; since: number } | { at: "failed"; error: ErrorView } | { at: "out" } | { at: "in"; home: OwnerHome };

class Session {
  seen: SignedIn = $state.raw({ at: "asking", since: Date.now() });

  constructor() {
    whenSignedOut(() => (this.seen = { at: "out" }));
  }
  async ask(): Promise<void> {
    try {
      this.seen = { at: "in", home: await queue.home() };
    } catch (thrown) {
      const error = asErrorView(thrown);
      if (error.code === "signed_out") this.seen = { at: "out" };
      // Old facts beat an empty page: only the first question's failure is shown in their place.
      else if (this.seen.at !== "in") this.seen = { at: "failed", error };
    }
  }
  async signIn(code: string): Promise<void> {
    await queue.signIn(code);
    await this.ask();
  }
  async signOut(): Promise<void> {
    await queue.signOut();
    this.seen = { at: "out" };
  }
}
export const session = new Session();
