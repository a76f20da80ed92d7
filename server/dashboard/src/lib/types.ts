// What the daemon answers, as api/openapi.yaml states it: the members that the page reads.

export type State = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';
export type Objective = 'latency' | 'throughput' | 'devices' | 'cost';

export interface Page {
  next_page_token?: string;
}

/** An item of GET /v1/models */
export interface Model {
  id: string;
  name: string;
  bytes: number;
  created_at: string;
}

export interface Port {
  name: string;
  dtype: string | null;
  shape: (number | string | null)[] | null;
}
/** GET /v1/models/{id}; of a graph of costs there is less. */
export interface Inspection {
  format?: string; // 'costs': a graph of costs
  id: string;
  name: string;
  bytes: number;
  graph?: string;
  ir_version?: number;
  producer?: string;
  producer_version?: string;
  opsets?: Record<string, number>;
  node_count: number;
  operators?: Record<string, number>;
  unknown_operators?: string[];
  parameters?: number;
  parameter_bytes?: number;
  flops?: number | null;
  symbols?: string[];
  inputs?: Port[];
  outputs?: Port[];
  configurations?: { name: string; num_devices?: number }[];
}

export interface Progress {
  phase: string;
  fraction: number;
  best_seconds?: number;
  lower_bound_seconds?: number;
}

export interface Failure {
  code: string;
  title?: string;
  detail: string;
  status: number;
  errors?: { pointer?: string; message?: string; detail?: string; node?: string; tensor?: string }[];
}

/** GET /v1/plans/{id}, without the plan itself. */
export interface PlanState {
  id: string;
  state: State;
  model: string;
  attempts: number;
  has_result: boolean;
  cancel_requested?: boolean;
  created_at: string;
  started_at?: string;
  finished_at?: string;
  error?: Failure;
  progress: Progress;
  request: { cluster?: unknown; sweep?: unknown; objective?: Objective; options?: Record<string, unknown> };
}

/** A row of GET /v1/summary. */
export interface PlanLine {
  id: string;
  state: State;
  model: string;
  model_name: string | null;
  objective: Objective | null;
  strategy: string | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  devices: number | null;
  devices_used: number | null;
  stages: number | null;
  latency_seconds: number | null;
  interval_seconds: number | null;
  throughput_per_second: number | null;
  lower_bound_seconds: number | null;
  gap: number | null;
  communication_bytes: number | null;
  memory_worst_ratio: number | null;
  search_seconds: number | null;
  bottleneck: string | null;
}

export interface DeviceKind {
  name: string;
  title?: string;
  kind?: string;
  memory_bytes: number;
  memory_bandwidth: number;
  flops: Record<string, number>;
  measured?: Record<string, boolean>;
  price_per_hour?: { usd: number; provider?: string; date?: string };
  note?: string;
}

export interface Stage {
  index: number;
  devices: number[];
  replicas: number;
  mesh: { name: string; size: number; splits: { operator: string; factor: string; nodes: number }[] }[];
  node_count: number;
  seconds: number;
  compute_seconds: number;
  collective_seconds: number;
  send_seconds: number;
  receive_seconds: number;
  start_seconds: number;
  because: string;
}

export interface Device {
  id: number;
  name: string;
  stage: number | null;
  node_count: number;
  flops: number;
  compute_seconds: number;
  collective_seconds: number;
  communication_seconds: number;
  idle_seconds: number;
  memory: {
    weights_bytes: number;
    cache_bytes: number;
    activations_peak_bytes: number;
    communication_bytes: number;
    total_bytes: number;
    arena_bytes: number;
    capacity_bytes: number;
  };
}

export interface SweepRow {
  device: string;
  devices_available: number;
  fits: boolean | null;
  latency_seconds: number | null;
  interval_seconds: number | null;
  throughput_per_second: number | null;
  devices_used: number | null;
  stages: number | null;
  memory_bytes: number | null;
  description: string | null;
  message: string | null;
  chosen: boolean;
  pareto: boolean;
}

export interface WhatIf {
  change: string;
  devices_available: number;
  fits: boolean | null;
  gain: number | null;
  kept?: boolean;
  latency_seconds: number | null;
  interval_seconds: number | null;
  throughput_per_second: number | null;
  devices: number | null;
  stages: number | null;
  memory_bytes: number | null;
  description: string | null;
  message: string | null;
}

export interface Alternative {
  description: string;
  stages: number;
  devices: number;
  latency_seconds: number;
  interval_seconds: number;
  memory_bytes: number;
  chosen: boolean;
}

/** A figure and where 90 % of measurements are expected. */
export interface Range {
  value: number;
  low: number;
  high: number;
}

/** GET /v1/plans/{id}/summary */
export interface Summary {
  job: Omit<PlanState, 'progress'>;
  plan: string;
  id: string;
  version: string;
  model: {
    sha256: string | null;
    name: string;
    size_bytes: number;
    ir_version: number | null;
    node_count: number;
    weight_bytes: number;
    flops: number;
  };
  cluster: {
    groups: { name?: string; count: number; device: DeviceKind }[];
    mesh?: { name: string; size: number; bandwidth: number; latency: number }[];
    memory_limit_bytes?: number;
    efficiency?: number;
  };
  objective: Objective;
  options: Record<string, unknown>;
  estimate: {
    latency_seconds: number;
    interval_seconds: number;
    throughput_per_second: number;
    communication_bytes: number;
    devices_used: number;
    price_per_hour?: number;
    lower_bound_seconds: number;
    gap: number;
    bottleneck: string;
    latency_range?: Range;
    throughput_range?: Range;
    memory_range?: Range;
  };
  assumptions?: { device: string | null; text: string; member: string }[];
  proof?: { state: string; seconds: number; undecided: string[] };
  why?: {
    binding: {
      kind: string;
      stage: number | null;
      devices: number[];
      node: string | null;
      seconds: number;
      share: number;
      better_seconds?: number;
      needed_bytes?: number;
      sentence: string;
    };
    second_best: {
      description: string;
      stages: number;
      devices: number;
      latency_seconds: number;
      interval_seconds: number;
      memory_bytes: number;
      worse_in: string;
      worse_by: number;
      worse_by_share: number;
      better_in: string[];
      sentence: string;
    } | null;
    no_second_best?: string;
    best?: { description: string; devices: number; better_by: number; better_by_share: number; sentence: string } | null;
  };
  stages: Stage[];
  devices: Device[];
  copies?: { count: number; devices: number[][] };
  routes?: {
    interval_bound_seconds: number;
    paths: { share: number; latency_seconds: number; devices: number[] }[];
    holders: { device: number; first: string; last: string; share: number; busy_seconds: number }[];
  };
  caches?: { node: string; stage: number; demanded_bytes: number; bytes: number; device_bytes: number }[];
  search: {
    explored: number;
    accepted: number;
    seconds: number;
    seed: number;
    strategy: string;
    candidates: number;
    subgraphs: number;
    memory_share: number;
    alternatives: Alternative[];
  };
  sweep?: SweepRow[];
  what_if?: WhatIf[];
  service?: Service;
  moved_bytes?: number;
  replan?: {
    moving_seconds: number;
    kept_bytes: number;
    horizon_seconds: number;
    sums: { from: number | string; to: number; bytes: number; moves: number }[];
  };
  counts: {
    nodes: number;
    folded_nodes: number;
    tensors: number;
    split_tensors: number;
    collectives: number;
    diagnostics: { error: number; warning: number; note: number };
  };
  collectives: { kind: string; count: number; bytes: number; seconds: number }[];
  critical_path: CriticalStep[];
}

/** What a plan for a workload gives its users. */
export interface Service {
  objective: Objective;
  copies: number;
  devices: number;
  concurrency?: number;
  micro_batches?: number;
  ttft_seconds?: number;
  ttft_range?: Range;
  tpot_seconds?: number;
  tpot_range?: Range;
  request_seconds: number;
  request_range: Range;
  requests_per_second: number;
  requests_range: Range;
  tokens_per_second?: number;
  tokens_range?: Range;
  tokens_per_second_per_device?: number;
  requests_per_dollar?: number;
  cache_bytes: number;
  memory_concurrency?: number;
  limit_concurrency?: number;
  limits?: { name: string; limit: number; value: number; state: string }[];
  pools?: {
    prefill: Pool & { time_share: number };
    decode: Pool & { place_share: number };
    transfer: { bytes_per_request: number; seconds: number; link_share: number };
  };
  phases: {
    name: string;
    planned: boolean;
    runs_per_request: number;
    latency_seconds: number;
    interval_seconds: number;
    memory_bytes: number;
    time_share: number;
    bottleneck: string;
  }[];
  front_by_tpot?: ServicePoint[];
  front_by_price?: ServicePoint[];
}

interface Pool {
  copies: number;
  devices_per_copy: number;
  description: string;
  capacity_per_second: number;
}

/** A service that no other one beats in two figures. */
export interface ServicePoint {
  copies: number;
  devices_per_copy: number;
  prefill_copies?: number;
  devices_per_prefill_copy?: number;
  description: string;
  concurrency: number;
  ttft_seconds: number;
  tpot_seconds: number;
  request_seconds: number;
  tokens_per_second_per_device: number;
  dollars_per_million_tokens?: number;
}

export interface CriticalStep {
  stage?: number;
  replica?: number;
  from_stage?: number;
  to_stage?: number;
  tensor?: string;
  begin_seconds: number;
  end_seconds: number;
}

/** GET /v1/plans/{id}/graph */
export interface Graph {
  path: string;
  parents: { path: string; label: string }[];
  depth: number;
  stage: number | null;
  group: 'module' | 'stage';
  node_count: number;
  truncated: boolean;
  boxes: Box[];
  edges: Edge[];
}
export interface Box {
  id: number;
  path: string;
  label: string;
  kind: 'module' | 'run' | 'node' | 'stage' | 'outside';
  nodes: number;
  seconds: number;
  collective_seconds: number;
  flops: number;
  weights_bytes: number;
  stages: { stage: number; nodes: number; seconds: number }[];
  operators: { operator: string; nodes: number }[];
  node?: string;
}
export interface Edge {
  from: number;
  to: number;
  tensors: number;
  bytes: number;
  crossing_bytes: number;
  tensor: string;
}

/** GET /v1/plans/{id}/timeline */
export interface Timeline {
  from: number;
  to: number;
  end: number;
  resolution: number;
  requests: number;
  interval_seconds: number;
  latency_seconds: number;
  lane_count: number;
  lanes: Lane[];
}
export type RowName = 'compute' | 'collective' | 'send' | 'receive';
export interface Lane {
  lane: number;
  stage: number;
  replica: number;
  first_device: number;
  device_list: string;
  devices: number;
  device: string;
  critical: boolean;
  bottleneck: boolean;
  rows: { row: RowName; slices: Slice[] }[];
}
/** begin, end, request, item, count, busy seconds, name of the longest */
export type Slice = [number, number, number, number, number, number, string];

/** GET /v1/plans/{id}/memory */
export interface Memory {
  stage: number;
  devices: [number, number];
  device_list: string;
  capacity_bytes: number;
  weights_bytes: number;
  cache_bytes: number;
  communication_bytes: number;
  activations_peak_bytes: number;
  total_bytes: number;
  seconds: number;
  course: [number, number][];
  peak: { at_seconds: number; node: string | null; index: number | null };
  alive: { tensor: string | null; what: 'input' | 'activation' | 'received' | 'copy' | 'workspace' | 'waiting'; node?: string; bytes: number }[];
  alive_more?: { count: number; bytes: number };
}

/** Tables: GET /v1/plans/{id}/nodes, tensors, collectives, diagnostics */
export interface Rows<Row> extends Page {
  total: number;
  items: Row[];
}
export interface NodeRow {
  index: number;
  name: string;
  operator: string | null;
  stage: number;
  folded: boolean;
  seconds: number;
  collective_seconds: number;
  flops: number;
  bytes: number;
  weights_bytes: number;
  inputs: string[];
  outputs: string[];
  more_operands?: number;
}
export interface Spec {
  onnx: Record<string, unknown>;
  text: string;
}
export interface TensorRow {
  index: number;
  name: string;
  kind: 'activation' | 'input' | 'weight';
  dtype: string | null;
  shape: (number | string | null)[] | null;
  bytes: number;
  bytes_per_device?: number;
  spec: Spec;
  uses?: { stage: number; node: string; nodes: string[]; spec: Spec }[];
  because: string;
  other_text?: string | null;
}
export interface CollectiveRow {
  index: number;
  kind: string;
  tensor: string | null;
  devices: number[];
  stage?: number;
  from_stage?: number;
  to_stage?: number;
  group_size?: number;
  bytes: number;
  bytes_per_device?: number;
  seconds: number;
  after_node: string | null;
  before_node?: string | null;
}
export interface DiagnosticRow {
  index: number;
  code: string;
  severity: 'error' | 'warning' | 'note';
  message: string;
  node: string | null;
  tensor: string | null;
  configuration: string | null;
  hint: string | null;
}
