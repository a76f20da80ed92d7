// Every file that can be made of the plan.
import { useState } from 'preact/hooks';
import { address, Problem } from '../lib/api';
import { needsFetch, save } from '../lib/save';
import { Card, ProblemBox } from '../ui/parts';
import { Table } from '../ui/table';
import type { ViewProps } from './plan';

interface File {
  what: string;
  text: string;
  path: string;
  name: string;
}

/** A link where the daemon wants no token, else a button that fetches. */
export function Download(props: { path: string; name: string; label: string }) {
  const [state, setState] = useState<'idle' | 'busy' | Problem>('idle');
  if (!needsFetch()) {
    return (
      <a class="button" href={address(props.path)} download={props.name}>
        {props.label}
      </a>
    );
  }
  const fetchIt = () => {
    setState('busy');
    save(props.path, props.name).then(
      () => setState('idle'),
      (error: unknown) => {
        const closed = error instanceof DOMException && error.name === 'AbortError';
        setState(closed ? 'idle' : error instanceof Problem ? error : new Problem(0, 'PAGE', String(error)));
      },
    );
  };
  return (
    <>
      <button type="button" disabled={state === 'busy'} onClick={fetchIt}>
        {state === 'busy' ? 'Fetching …' : props.label}
      </button>
      {state instanceof Problem && <ProblemBox problem={state} />}
    </>
  );
}

function files(id: string, model: string): File[] {
  const plan = `v1/plans/${id}`;
  const of = (format: string, extension: string, what: string, text: string): File => ({
    what,
    text,
    path: `${plan}/exports/${format}`,
    name: `${model}.${format}.${extension}`,
  });
  return [
    { what: 'Annotated model', text: 'The model with the multi-device annotations of ONNX IR 11 added; nothing else is changed.', path: `${plan}/model`, name: `${model}.annotated.onnx` },
    { what: 'Simulation', text: 'One plain ONNX model that does what all devices do: any runtime shows that the plan computes what the model does.', path: `${plan}/simulation`, name: `${model}.simulation.onnx` },
    { what: 'Plan (JSON)', text: 'All of it, as this page shows parts of it.', path: plan, name: `${model}.plan.json` },
    { what: 'Timeline', text: 'For ui.perfetto.dev.', path: `${plan}/timeline`, name: `${model}.pftrace` },
    of('ort-collectives', 'json', "Manifest of the devices' models", "For ONNX Runtime's collectives; the models are below."),
    of('tensorrt', 'json', "Manifest of the devices' models, TensorRT", 'With DistCollective.'),
    of('sessions', 'json', 'Manifest without collectives', 'Models are cut where anything is exchanged.'),
    of('genai', 'json', 'Manifest for GenAI', 'With its genai_config.json.'),
    of('triton', 'json', 'Manifest of a Triton repository', 'An ensemble, with its config.pbtxt.'),
    of('triton-tensorrt', 'json', 'Manifest of a Triton repository, TensorRT', 'An engine for each rank.'),
    of('ort', 'onnx', 'ONNX Runtime, Distributed operators', 'One model with com.microsoft.Distributed* operators.'),
    of('op-sharding', 'bin', 'XLA OpSharding', 'Protobuf records of every tensor.'),
    of('shardy', 'mlir', 'Shardy', 'Meshes, shardings and a function, in MLIR.'),
    of('poprt', 'yaml', 'PopRT', 'Its YAML of devices and stages.'),
    of('poprt-model', 'onnx', 'PopRT, as node attributes', 'The model with them.'),
    of('qualcomm-mdp', 'json', 'Qualcomm MDP', 'Partition of nodes on devices.'),
    of('ort-layers', 'onnx', 'ONNX Runtime layer annotations', 'The model with layer_ann metadata.'),
    of('ort-layers-options', 'txt', 'ONNX Runtime layer options', 'The session options that go with them.'),
    of('ort-layers-names', 'json', 'ONNX Runtime layers by name', 'Session options for the model as it is.'),
    of('olive-splits', 'txt', 'Olive', 'Its split_assignments.'),
    of('netron', 'onnx', 'Netron', 'The model with stage and devices at each node.'),
    of('polygraphy-hints', 'json', 'Polygraphy', 'Hints for multi-device shard.'),
    of('vllm-args', 'txt', 'vLLM', 'Its options.'),
    of('sglang-args', 'txt', 'SGLang', 'Its options.'),
    of('trtllm-args', 'txt', 'TensorRT-LLM', 'Its options.'),
    of('llamacpp-args', 'txt', 'llama.cpp', 'Its options.'),
    of('mlx', 'txt', 'MLX-LM', 'Its options.'),
    of('exo', 'json', 'exo', 'The layers of each rank.'),
    of('model-explorer', 'json', 'Model Explorer: stages', 'Node data that colours the graph there.'),
    of('model-explorer-device', 'json', 'Model Explorer: devices', 'The same by device.'),
    of('model-explorer-seconds', 'json', 'Model Explorer: seconds', 'The same by time.'),
    of('model-explorer-bytes', 'json', 'Model Explorer: bytes', 'The same by memory.'),
    of('csv', 'csv', 'Nodes (CSV)', 'A line for each node.'),
    of('csv-devices', 'csv', 'Devices (CSV)', 'A line for each device.'),
    of('csv-tensors', 'csv', 'Tensors (CSV)', 'A line for each tensor, with its sharding.'),
    of('csv-collectives', 'csv', 'Collectives (CSV)', 'A line for each exchange.'),
  ];
}

const TARGETS = ['ort-collectives', 'tensorrt', 'sessions', 'genai', 'triton', 'triton-tensorrt', 'ort'];

function DeviceModels(props: ViewProps) {
  const used = props.summary.devices.filter((device) => device.stage !== null);
  const [device, setDevice] = useState(0);
  const [target, setTarget] = useState('ort-collectives');
  const [part, setPart] = useState('0');
  const query = `format=${target}${part !== '0' && part !== '' ? `&part=${part}` : ''}`;
  return (
    <Card title="What one device runs">
      <p class="muted">
        Devices are numbered as in the annotated model: those that are used, from 0. With “sessions” a device has several
        parts; the manifest lists them.
      </p>
      <div class="filters">
        <label>
          Device
          <select value={device} onChange={(event) => setDevice(Number(event.currentTarget.value))}>
            {used.map((one, at) => (
              <option key={one.id} value={at}>
                {at}: {one.name}:{one.id}, stage {one.stage}
              </option>
            ))}
          </select>
        </label>
        <label>
          For
          <select value={target} onChange={(event) => setTarget(event.currentTarget.value)}>
            {TARGETS.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        {target !== 'ort' && (
          <label>
            Part
            <input type="number" min={0} value={part} onInput={(event) => setPart(event.currentTarget.value)} />
          </label>
        )}
        <Download
          path={`v1/plans/${props.id}/devices/${device}/model?${query}`}
          name={`${props.summary.model.name}.device-${device}.onnx`}
          label="Download"
        />
      </div>
    </Card>
  );
}

export function DownloadsView(props: ViewProps) {
  return (
    <>
      <DeviceModels {...props} />
      <Card title="Files of the plan">
        <Table
          caption="Files of the plan"
          rows={files(props.id, props.summary.model.name)}
          rowKey={(file) => file.name}
          columns={[
            { key: 'what', label: 'File', cell: (file) => file.what },
            { key: 'get', label: '', cell: (file) => <Download path={file.path} name={file.name} label="Download" /> },
            { key: 'text', label: 'What it is', cell: (file) => file.text },
          ]}
        />
      </Card>
    </>
  );
}
