import litellm,os,asyncio
litellm.suppress_debug_info=True
kw=dict(model='openai/smollm2-135m',api_base='http://localhost:18831/v1',api_key='KEY',temperature=0)
M=[{'role':'user','content':'What is the capital of France?'}]
def t(n,f):
    try: print(n,'ok',f())
    except Exception as e: print(n,type(e).__name__,getattr(e,'status_code',None),str(e)[:200])
t('chat',lambda:litellm.completion(messages=M,**kw).choices[0].message.content)
t('stream',lambda:''.join(c.choices[0].delta.content or '' for c in litellm.completion(messages=M,stream=True,**kw) if c.choices))
t('stream usage',lambda:[c.usage for c in litellm.completion(messages=M,stream=True,stream_options={'include_usage':True},**kw) if getattr(c,'usage',None)])
t('n',lambda:len(litellm.completion(messages=M,n=2,**{**kw,'temperature':.9}).choices))
t('logprobs',lambda:litellm.completion(messages=M,logprobs=True,top_logprobs=2,max_tokens=3,**kw).choices[0].logprobs)
t('text',lambda:litellm.text_completion(prompt='The capital of France is',max_tokens=3,**{**kw,'model':'text-completion-openai/smollm2-135m'}).choices[0].text)
t('async',lambda:asyncio.run(litellm.acompletion(messages=M,**kw)).choices[0].message.content)
t('json',lambda:litellm.completion(messages=M,response_format={'type':'json_object'},**kw))
t('tools',lambda:litellm.completion(messages=M,tools=[{'type':'function','function':{'name':'f','parameters':{}}}],**kw))
t('wrong key',lambda:litellm.completion(messages=M,**{**kw,'api_key':'no'}))
t('wrong model',lambda:litellm.completion(messages=M,**{**kw,'model':'openai/none'}))
t('too long',lambda:litellm.completion(messages=[{'role':'user','content':'a b '*1000}],**kw))
t('responses',lambda:litellm.responses(input='What is the capital of France?',**kw).output[0].content[0].text)
t('responses stream',lambda:[e.type for e in litellm.responses(input='Hi',stream=True,max_output_tokens=4,**kw)][-2:])
import openai
c=openai.OpenAI(base_url='http://localhost:18831/v1',api_key='KEY',max_retries=0)
from pydantic import BaseModel
class A(BaseModel): city:str
t('parse',lambda:c.chat.completions.parse(model='smollm2-135m',messages=M,response_format=A))
t('resp parse',lambda:c.responses.parse(model='smollm2-135m',input='x',text_format=A))
t('resp tools',lambda:c.responses.create(model='smollm2-135m',input='x',tools=[{'type':'function','name':'f','parameters':{}}]))
t('resp bg',lambda:c.responses.create(model='smollm2-135m',input='x',background=True))
t('resp stream mgr',lambda:(lambda s:[e.type for e in s][-1])(c.responses.stream(model='smollm2-135m',input='Hi',max_output_tokens=4).__enter__()))
t('chat stream mgr',lambda:(lambda s:[e.type for e in s][-1])(c.chat.completions.stream(model='smollm2-135m',messages=M,max_tokens=4).__enter__()))
t('models',lambda:[m.id for m in c.models.list()])
t('embeddings',lambda:c.embeddings.create(model='smollm2-135m',input='x'))
t('reasoning',lambda:c.responses.create(model='smollm2-135m',input='Hi',max_output_tokens=3,reasoning={'effort':'low'}).status)
t('trunc side',lambda:c.completions.create(model='smollm2-135m',prompt='a b c d',max_tokens=2,extra_body={'truncate_prompt_tokens':2,'truncation_side':'right'}).usage)
