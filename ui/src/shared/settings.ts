// A change of the settings names what changes; everything else stays.
import type { SettingsChange } from "../generated/types";

export const NO_CHANGE: SettingsChange = { token_ceiling: null, cost_ceiling_cents: null, max_concurrency: null, max_tokens_per_call: null, approval_timeout_s: null, pickup_instant: null, paused: null, start_at_login: null, keep_in_tray: null, tell_asks: null, theme: null, language: null, retention_days: null };
