// The list of executions, as the desktop filters and pages it.
import type { ExecutionFilter, ExecutionRow } from "../../generated/types";
import { platform } from "../../platform";
import { PagedList } from "../../shared/paged.svelte";

export const NO_FILTER: ExecutionFilter = { graph_id: null, project_id: null, agent: null, state: null, origin: null, text: null, since: null, until: null, after: null, limit: null };

export class RunList extends PagedList<ExecutionRow, ExecutionFilter> {
  constructor() {
    super(NO_FILTER, (filter, after, limit) => platform.call("executions_list", { filter: { ...filter, after, limit } }), (row) => row.execution_id);
  }
}
